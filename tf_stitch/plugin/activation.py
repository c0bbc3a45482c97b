"""Turns tf_stitch on in this process: native op, graph hook, session, in the order that leaves nothing half done."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tf_stitch import interruption
from tf_stitch.config import StitchConfig, load_config
from tf_stitch.native.bindings import OpLibrary, load_op
from tf_stitch.native.build import GRAPH_HOOK, build_library
from tf_stitch.plugin import (
    at_exit,
    element_shapes,
    function_calls,
    graph_hook,
    interrupted_calls,
    keras_convolutions,
    keras_float8,
    keras_jit,
    keras_logs,
    known_optionals,
    own_devices,
    partial_runs,
    session_runs,
)
from tf_stitch.plugin.held_variables import HeldVariables
from tf_stitch.plugin.installed_tensorflow import check_version
from tf_stitch.plugin.late_session import LateSession

if TYPE_CHECKING:
    from tf_stitch.plugin.session import Session

_lock = threading.Lock()
_session: LateSession | None = None
_native: OpLibrary | None = None
_module_folders: list[Path] = []


def enable(config: StitchConfig | None = None) -> None:
    """Rewrites every graph from now on; TensorFlow must have been imported. A second call does nothing.

    Args:
        config: what to do; read from the environment when not given. Not `enabled` means do nothing.

    Raises:
        ConfigError: a TF_STITCH_* variable that is not allowed.
        TensorFlowError: this TensorFlow is too old.
        NativeError: the graph hook or the native op cannot be built or loaded: the program is TensorFlow's alone.
    """
    global _session, _native
    import tensorflow as tf

    config = config or load_config()
    with _lock:
        if not config.enabled or _session is not None:
            return
        check_version(tf.version.VERSION)
        build_library(GRAPH_HOOK, config.cache_dir)  # without it nothing is worth doing, or saying
        native = None if config.wrap == "py_function" else load_op(config.cache_dir)
        own_devices.notice_servers()
        session = LateSession(config, native)
        # At exit the last added runs first: TensorFlow is kept out of Python before the report is written.
        at_exit.callbacks.callback(_close)
        graph_hook.install(session.rewrite, session.hook_error, config.cache_dir)
        _session = session
        if native is not None:
            native.enable_profitability_check(config.profitability_check)
            native.restrict_modules([*config.modules, *_module_folders])
            _native = native
            at_exit.callbacks.callback(native.clear_callbacks)
        at_exit.callbacks.callback(interruption.end)
        keras_jit.resolve_auto_to_false()
        keras_convolutions.leave_xla_out_on_gpus()
        keras_float8.optimize_graphs_of_e5m2()
        partial_runs.leave_alone()
        interrupted_calls.are_interrupts()
        if config.short_calls:
            element_shapes.remember_data_sets()
            keras_logs.hear_later_on_gpus()
            held = None if native is None else HeldVariables(native, session.not_held)
            function_calls.shorten(native is not None and native.callers_executor, session.first_calls, held,
                                   session.turns)
            session_runs.wait_for_kernels(session.first_calls)
            session.load_first_calls()
        known_optionals.answer_at_once()  # behind what makes copies that hold variables


def allow_modules(folder: Path) -> None:
    """Loads the kernels of converted models in `folder`, or below, also where graphs are rewritten."""
    with _lock:
        _module_folders.append(folder)
        if _native is not None:
            _native.restrict_modules([folder])


def is_enabled() -> bool:
    """Whether tf_stitch was turned on in this process."""
    return _session is not None and not _session.failed


def current_session() -> Session | None:
    """The session of this process, or None when tf_stitch is not active."""
    return None if _session is None else _session.get()


def _close() -> None:
    if _session is not None:
        _session.close()
