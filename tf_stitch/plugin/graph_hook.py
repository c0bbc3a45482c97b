"""Hands every graph that TensorFlow is about to run to a Python function, and takes the rewritten graph back.

TensorFlow calls on any thread, after placement, with calls inlined and forward, backward and optimizer ops together.
Each graph comes twice, but for those under 4 nodes, which are not offered. GraphItem.graph_id tells input pipelines
apart (seen on TensorFlow 2.21; the id is the function's name, or "tf_graph" for a v1 session):

- `Dataset.map(f)`, `filter` and the like are "__inference_Dataset_map_f_34": input pipeline.
- A `for batch in dataset` loop inside a tf.function is "__inference_Dataset_scan_scan_body_183" and
  "__inference_reduce_reduce_body_191": the user's training loop, not bound to the CPU.
- A function that is not inlined comes alone under its own name, whoever calls it; its caller came before it.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.errors import NativeError, StitchError
from tf_stitch.graph.graph_item import CalledFunctions, GraphItem, GrapplerApi, PipelineNames
from tf_stitch.interruption import Interrupted, interruptible, watch
from tf_stitch.native.build import GRAPH_HOOK, build_library
from tf_stitch.plugin import at_exit
from tf_stitch.plugin.own_devices import is_own_device

Optimize = Callable[[GraphItem], GraphDef | None]
OnError = Callable[[Exception], None]
Look = Callable[[GraphItem], object]

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p,
    ctypes.c_int, ctypes.c_void_p
)
_REWRITTEN, _LEFT_ALONE, _PRESSED = 1, 2, 3
"""What the callback returns beyond its call's number, see graph_hook.cc. ctypes returns something else where an error
was raised before the first line of the callback, or behind its last."""
_INTERRUPTED = "rewriting it was interrupted: Ctrl-C was pressed, or the program ends"
_suspension = threading.local()
_on = True
_installed: _Hook | None = None
_install_lock = threading.Lock()


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Graphs that this thread makes inside are left as they are: for code that runs TensorFlow within callbacks.

    Functions that TensorFlow does not inline are optimized on its own threads, and are not covered.
    """
    _suspension.depth = getattr(_suspension, "depth", 0) + 1
    try:
        yield
    finally:
        _suspension.depth -= 1


@contextlib.contextmanager
def left_alone(function: str, look: Look | None = None) -> Iterator[None]:
    """The graph of a function that this thread makes inside is left as it is.

    Args:
        look: gets the graph once, before TensorFlow goes on.
    """
    before = getattr(_suspension, "function", ""), getattr(_suspension, "look", None)
    _suspension.function, _suspension.look = function, look
    try:
        yield
    finally:
        _suspension.function, _suspension.look = before


def switch(on: bool) -> None:
    """Whether graphs that TensorFlow optimizes from now on, on any thread, are rewritten at all."""
    global _on
    _on = on


def is_on() -> bool:
    """What `switch` was told last; True at first."""
    return _on


def is_on_here() -> bool:
    """Whether graphs that this thread makes now are rewritten."""
    return _on and not getattr(_suspension, "depth", 0)


def install(optimize: Optimize, on_error: OnError, cache_dir: Path) -> None:
    """Registers with TensorFlow; a second call only replaces the functions.

    Args:
        optimize: returns the new graph, or None to leave the graph alone. It may edit `item.graph_def` in place.
        on_error: gets what `optimize` or the validation of its result raised; the graph is then left unrewritten.
        cache_dir: where the native library is kept.

    Raises:
        NativeError: the hook library cannot be built or loaded.
    """
    global _installed
    with _install_lock:
        if _installed is None:
            _installed = _Hook(build_library(GRAPH_HOOK, cache_dir))
        _installed.optimize, _installed.on_error = optimize, on_error


class _Hook:
    """The loaded library. One for the process's life: TensorFlow keeps the registration."""

    optimize: Optimize
    on_error: OnError

    def __init__(self, path: Path) -> None:
        self._pipelines, self._functions = PipelineNames(), CalledFunctions()
        self._library = _load(path)
        self._api = GrapplerApi()
        watch(self._library.tfs_watch_install, self._library.tfs_watch_wait)
        self._callback = _CALLBACK(self._on_graph)
        self._library.tfs_hook_set_callback(self._callback)
        at_exit.callbacks.callback(self._library.tfs_hook_set_callback, _CALLBACK())
        _register(self._library, path)

    def _on_graph(self, data: int, size: int, item: int, graph_id: bytes, feeds: bytes, device: bytes, call: int,
                  result: int) -> int:
        """The callback: what to do, beyond the call's number; `result` holds the new graph if it is _REWRITTEN."""
        try:  # from the first call on: what crosses into C++ is lost, Ctrl-C with it
            graph = graph_id.decode()
            alone = graph == getattr(_suspension, "function", "")
            if not is_on_here() or (alone and _suspension.look is None):
                return call + _LEFT_ALONE
            with suspended(), interruptible():
                if alone:
                    self._show(ctypes.string_at(data, size), item, graph, frozenset(feeds.decode().split()))
                    return call + _LEFT_ALONE
                rewritten = self._rewrite(ctypes.string_at(data, size), item, graph,
                                          frozenset(feeds.decode().split()), device.decode())
        except KeyboardInterrupt:  # in the main thread, which runs this
            self.on_error(StitchError(_INTERRUPTED))
            return call + _PRESSED
        except Interrupted:
            self.on_error(StitchError(_INTERRUPTED))
            return call + _LEFT_ALONE
        except Exception as error:  # cannot cross C++
            self.on_error(error)
            return call + _LEFT_ALONE
        if rewritten is None:
            return call + _LEFT_ALONE
        self._library.tfs_hook_result(result, rewritten, len(rewritten))
        return call + _REWRITTEN

    def _show(self, serialized: bytes, handle: int, graph_id: str, feeds: frozenset[str]) -> None:
        look, _suspension.look = _suspension.look, None
        with self._api.open(handle) as view:
            look(GraphItem(GraphDef.FromString(serialized), view.preserved(), graph_id, "GPU", False, view, feeds))

    def _rewrite(self, serialized: bytes, handle: int, graph_id: str, feeds: frozenset[str], registration: str
                 ) -> bytes | None:
        graph_def = GraphDef.FromString(serialized)
        device_type = "GPU" if any("device:GPU:" in node.device for node in graph_def.node) else "CPU"
        if device_type != registration:
            return None  # a mixed graph comes once for each registered type
        with self._api.open(handle) as view:
            is_tf_data = self._pipelines.visit(graph_id, graph_def)
            is_called = self._functions.visit(graph_id, graph_def)
            item = GraphItem(graph_def, view.preserved(), graph_id, device_type, is_tf_data, view, feeds, is_called,
                             is_own_device)
            after = self.optimize(item)
        if after is None:
            return None
        from tf_stitch.graph.finish.validation import validate_graph  # which `import tensorflow` should not load

        validate_graph(GraphDef.FromString(serialized), after, item.preserved, item.is_own)
        rewritten: bytes = after.SerializeToString()
        return rewritten


def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeError(f"{path} could not be loaded: {error}; remove it to build it anew") from error
    signatures: dict[str, list[Any]] = {
        "tfs_hook_set_callback": [_CALLBACK],
        "tfs_hook_result": [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64],
        "tfs_hook_next_device_type": [ctypes.c_char_p],
        "tfs_watch_install": [],
        "tfs_watch_wait": [],
    }
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.restype = None
        function.argtypes = arguments
    return library


def _register(library: ctypes.CDLL, path: Path) -> None:
    """Loads the library once per device type that graphs of this TensorFlow can have.

    A GPU build registers "GPU" without asking for devices: that would initialise the runtime before the user can
    configure it, and the registration is inert while no node is placed on a GPU.
    """
    import tensorflow as tf
    from tensorflow.python.client import pywrap_tf_session

    gpu_build = tf.test.is_built_with_cuda() or tf.test.is_built_with_rocm()
    for device_type in ("GPU", "CPU") if gpu_build else ("CPU",):
        library.tfs_hook_next_device_type(device_type.encode())
        try:
            pywrap_tf_session.TF_LoadPluggableDeviceLibrary(str(path))
        except tf.errors.OpError as error:
            raise NativeError(f"TensorFlow did not accept {path} for {device_type}: {error}") from error
