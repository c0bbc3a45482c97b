"""Turns tf_stitch on in this process: native op, graph hook, session, in the order that leaves nothing half done."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.config import StitchConfig, load_config
from tf_stitch.errors import NativeError
from tf_stitch.integration import at_exit, graph_hook, keras_jit, partial_runs
from tf_stitch.integration.graph_item import GraphItem
from tf_stitch.native.bindings import FallbackCall, OpLibrary, load_op


class SessionLike(Protocol):
    """What activation needs of integration.session.Session."""

    def rewrite(self, item: GraphItem) -> GraphDef | None: ...

    def build(self, region: int, device: int, key: tuple[int, ...]) -> Sequence[int] | None: ...

    def original(self, region: int, reason: str) -> bytes | None: ...

    def fallback(self, region: int, call: FallbackCall) -> None: ...

    def hook_error(self, exc: Exception) -> None: ...

    def close(self) -> None: ...


SessionFactory = Callable[[StitchConfig, OpLibrary | None], SessionLike]

_lock = threading.Lock()
_session: SessionLike | None = None


def enable(config: StitchConfig | None = None, make_session: SessionFactory | None = None) -> None:
    """Rewrites every graph from now on; TensorFlow must have been imported. A second call does nothing.

    Args:
        config: what to do; read from the environment when not given. Not `enabled` means do nothing.
        make_session: makes the session instead of integration.session (for tests).

    Raises:
        ConfigError: a TF_STITCH_* variable that is not allowed.
        NativeError: the graph hook cannot be built, or the op cannot and TF_STITCH_WRAP=native or strict asks for it.
    """
    global _session
    config = config or load_config()
    with _lock:
        if not config.enabled or _session is not None:
            return
        native = _load_native(config)
        session = (make_session or _session_class())(config, native)
        # At exit the last added runs first: TensorFlow is kept out of Python before the report is written.
        at_exit.callbacks.callback(_close)
        graph_hook.install(session.rewrite, session.hook_error, config.cache_dir)
        _session = session
        if native is not None:
            native.enable_guard(config.guard)
            native.set_callbacks(session.build, session.original, session.fallback)
            at_exit.callbacks.callback(native.clear_callbacks)
        keras_jit.resolve_auto_to_false()
        partial_runs.leave_alone()


def current_session() -> SessionLike | None:
    """The session of this process, or None when tf_stitch is not active."""
    return _session


def _close() -> None:
    if _session is not None:
        _session.close()


def _load_native(config: StitchConfig) -> OpLibrary | None:
    """The native op, or None when regions are to run as Python."""
    if config.wrap == "py_function":
        return None
    try:
        return load_op(config.cache_dir)
    except NativeError as error:
        if config.strict or config.wrap == "native":
            raise
        print(f"[tf_stitch] no native op, regions run in Python (slow): {error}", file=sys.stderr)
        return None


def _session_class() -> SessionFactory:
    return cast(SessionFactory, importlib.import_module("tf_stitch.integration.session").Session)
