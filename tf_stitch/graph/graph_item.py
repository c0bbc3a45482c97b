"""One graph as TensorFlow offers it to the hook, with the facts about it that TensorFlow's C API gives."""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.grappler.costs.op_performance_data_pb2 import OpInfo

from tf_stitch.errors import StitchError
from tf_stitch.frontend.tensorflow.held_handles import original_name
from tf_stitch.ir.types import Shape, Symbol

OutputType = tuple[int, tuple[int, ...] | None]


def as_tensorflow(dim: object, otherwise: int) -> int:
    """A dimension as OutputType has it: a number, or a symbol of TensorFlow's by its negative number; `otherwise` for
    what TensorFlow has no number for."""
    if isinstance(dim, Symbol):
        return -int(dim.name[1:]) if dim.name[0] == "s" and dim.name[1:].isdigit() else otherwise
    return dim if isinstance(dim, int) else otherwise


def as_shape(dims: Sequence[int], name: str) -> Shape:
    """Dimensions of an OutputType as the IR has them; what is unknown is named after `name`."""
    return tuple(d if d >= 0 else Symbol(f"s{-d}" if d < -1 else f"u_{name}_{axis}") for axis, d in enumerate(dims))


class TypeSource(Protocol):
    """Where a GraphItem gets its output types from."""

    def output_types(self, node_name: str) -> list[OutputType]: ...


@dataclass(frozen=True)
class GraphItem:
    """A graph offered for rewriting; valid only inside the callback.

    Attributes:
        graph_def: the graph; the receiver may edit it.
        preserved: names of nodes that must stay (fetches, feeds and the like).
        graph_id: TensorFlow's name for what is optimized.
        device_type: "GPU" when any node is placed on one, else "CPU".
        is_tf_data: a function of an input pipeline (a guess from names): runs on the CPU, element by element.
        feeds: names of the preserved nodes whose result the caller gives.
        is_called: a function that another graph calls, and that TensorFlow does not inline there: each call may make
            new kernels of it.
        is_own: whether a device is of this process.
    """

    graph_def: GraphDef
    preserved: frozenset[str]
    graph_id: str
    device_type: str
    is_tf_data: bool
    types: TypeSource
    feeds: frozenset[str] = frozenset()
    is_called: bool = False
    is_own: Callable[[str], bool] = lambda device: True

    @property
    def function(self) -> str:
        """What the program calls the function that is optimized."""
        return original_name(self.graph_id)

    def output_types(self, node_name: str) -> list[OutputType]:
        """(DataType, dimensions) of each output; None for unknown rank, and for an unknown node an empty list.

        A negative dimension is unknown; equal negative numbers are equal dimensions. The first call infers the
        shapes of the whole graph, those after it cost microseconds.
        """
        return self.types.output_types(node_name)


class PipelineNames:
    """Tells functions of input pipelines by their graph ids, and what they call by having seen the caller."""

    _PIPELINE = re.compile(r"__(inference|forward)_(Dataset_|tf_data_)(?!scan_scan_body_)")

    def __init__(self) -> None:
        self._called: set[str] = set()
        self._lock = threading.Lock()

    def visit(self, graph_id: str, graph_def: GraphDef) -> bool:
        """Whether the graph belongs to an input pipeline; remembers the functions that it calls."""
        callees = {function.signature.name for function in graph_def.library.function}
        with self._lock:
            is_pipeline = self._PIPELINE.match(graph_id) is not None or graph_id in self._called
            if is_pipeline:
                self._called |= callees
            else:
                self._called -= callees  # shared with a computation: its next graph is that one's
        return is_pipeline


class CalledFunctions:
    """Tells functions that graphs call by having seen the caller, which comes before them. Thread-safe."""

    _MOST = 1 << 14

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._lock = threading.Lock()

    def visit(self, graph_id: str, graph_def: GraphDef) -> bool:
        """Whether another graph calls this one; remembers the functions that it calls, and forgets the oldest."""
        with self._lock:
            is_called = graph_id in self._names
            for function in graph_def.library.function:
                if function.signature.name != graph_id:
                    self._names.pop(function.signature.name, None)
                    self._names[function.signature.name] = None
            while len(self._names) > self._MOST:
                del self._names[next(iter(self._names))]
        return is_called


class _TfBuffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("deallocator", ctypes.c_void_p)]


class GrapplerApi:
    """TensorFlow's grappler C functions, typed."""

    def __init__(self) -> None:
        import tensorflow as tf

        folder = Path(tf.sysconfig.get_lib())
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        flag = ctypes.c_ubyte
        self.framework = _declare(
            ctypes.CDLL(str(folder / "libtensorflow_framework.so.2")),
            {
                "TF_NewStatus": (pointer, []),
                "TF_DeleteStatus": (None, [pointer]),
                "TF_GetCode": (integer, [pointer]),
                "TF_Message": (ctypes.c_char_p, [pointer]),
                "TF_NewBuffer": (pointer, []),
                "TF_DeleteBuffer": (None, [pointer]),
            },
        )
        self.grappler = _declare(
            ctypes.CDLL(str(folder / "libtensorflow_cc.so.2")),
            {
                "TF_GetNodesToPreserveListSize": (None, [pointer] * 4),
                "TF_GetNodesToPreserveList": (None, [pointer] * 3 + [integer, pointer, ctypes.c_size_t, pointer]),
                "TF_NewGraphProperties": (pointer, [pointer]),
                "TF_DeleteGraphProperties": (None, [pointer]),
                "TF_InferStatically": (None, [pointer, flag, flag, flag, flag, pointer]),
                "TF_GetOutputPropertiesListSize": (None, [pointer, ctypes.c_char_p, pointer, pointer]),
                "TF_GetOutputPropertiesList": (None, [pointer, ctypes.c_char_p, pointer, integer, pointer]),
            },
        )

    @contextlib.contextmanager
    def open(self, item: int) -> Iterator[GrapplerView]:
        """A view of the grappler item at address `item`; what it holds is freed at the end."""
        view = GrapplerView(self, item)
        try:
            yield view
        finally:
            view.close()


class GrapplerView:
    """What TensorFlow knows about one graph."""

    def __init__(self, api: GrapplerApi, item: int) -> None:
        self._framework = api.framework
        self._grappler = api.grappler
        self._item = item
        self._status: int = api.framework.TF_NewStatus()
        self._properties: int | None = None
        self._closed = False

    def close(self) -> None:
        if self._properties is not None:
            self._grappler.TF_DeleteGraphProperties(self._properties)
        self._framework.TF_DeleteStatus(self._status)
        self._closed = True

    def preserved(self) -> frozenset[str]:
        count, size = ctypes.c_int(), ctypes.c_size_t()
        self._grappler.TF_GetNodesToPreserveListSize(
            self._item, ctypes.byref(count), ctypes.byref(size), self._status
        )
        self._check("TF_GetNodesToPreserveListSize")
        values = (ctypes.c_void_p * count.value)()
        lengths = (ctypes.c_size_t * count.value)()
        storage = ctypes.create_string_buffer(size.value + 1)
        self._grappler.TF_GetNodesToPreserveList(
            self._item, values, lengths, count.value, storage, size.value, self._status
        )
        self._check("TF_GetNodesToPreserveList")
        return frozenset(
            ctypes.string_at(value, length).decode() for value, length in zip(values, lengths, strict=True) if value
        )

    def output_types(self, node_name: str) -> list[OutputType]:
        if self._closed:
            raise StitchError("a GraphItem was asked for types after its callback had returned")
        if self._properties is None:
            self._properties = self._infer()
        name = node_name.encode()
        count = ctypes.c_int()
        self._grappler.TF_GetOutputPropertiesListSize(self._properties, name, ctypes.byref(count), self._status)
        self._check("TF_GetOutputPropertiesListSize")
        if count.value == 0:
            return []
        buffers = (ctypes.c_void_p * count.value)(*(self._framework.TF_NewBuffer() for _ in range(count.value)))
        try:
            self._grappler.TF_GetOutputPropertiesList(self._properties, name, buffers, count.value, self._status)
            self._check("TF_GetOutputPropertiesList")
            return [_output_type(_TfBuffer.from_address(buffer or 0)) for buffer in buffers]
        finally:
            for buffer in buffers:
                self._framework.TF_DeleteBuffer(buffer)

    def _infer(self) -> int:
        properties: int = self._grappler.TF_NewGraphProperties(self._item)
        # Feeds are what their placeholders say; without that hardly a shape of a v1 graph is known.
        self._grappler.TF_InferStatically(properties, 1, 0, 0, 0, self._status)
        if self._framework.TF_GetCode(self._status) != 0:
            self._grappler.TF_DeleteGraphProperties(properties)
        self._check("TF_InferStatically")
        return properties

    def _check(self, function: str) -> None:
        if self._framework.TF_GetCode(self._status) != 0:
            message = self._framework.TF_Message(self._status).decode(errors="replace")
            raise StitchError(f"{function}: {message}")


def _output_type(buffer: _TfBuffer) -> OutputType:
    properties = OpInfo.TensorProperties.FromString(ctypes.string_at(buffer.data, buffer.length))
    if properties.shape.unknown_rank:
        return properties.dtype, None
    return properties.dtype, tuple(dim.size for dim in properties.shape.dim)


def _declare(library: ctypes.CDLL, signatures: dict[str, tuple[Any, list[Any]]]) -> ctypes.CDLL:
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
