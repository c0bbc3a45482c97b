"""The nodes of a while loop that runs as one op, as a graph of their own: from the op's inputs to its results."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.control_flow import ENTERS
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame
from tf_stitch.graph.clustering.region_graph import input_key
from tf_stitch.graph.shapes.size_nodes import SizeExpression, SizeNodes

_UNKNOWN = -1
"""A size that is not known, or an element shape of which nothing is known."""


class LoopNodes:
    """Lists, which the op has as tensors, are made of them where the loop begins, and stacked where it ends.

    Args:
        exits: names of the Exits whose tensors, or lists, the op gives.
    """

    def __init__(self, frame: LoopFrame, exits: Sequence[str]) -> None:
        self.graph = GraphDef()
        needed = _needed(frame, exits)
        self.enters = [node for node in frame.of(ENTERS) if node.name in needed]
        for source in frame.nodes:
            if source.name in needed:
                node = self.graph.node.add()
                node.CopyFrom(source)
                node.device = ""
                node.attr.pop("_class", None)
                node.input[:] = [t for t in source.input if producer_of(t) in needed]
        self._defs = {node.name: node for node in self.graph.node}
        self._numbers = itertools.count()

    def start(self, enter: str, number: int) -> None:
        """Brings the op's input in."""
        self._defs[enter].input[:] = [argument(number)]

    def start_of_rows(self, enter: str, number: int, dtype: int) -> None:
        """Brings in a list of the rows of the op's input; `dtype`, here and below, is a tensorflow.DataType."""
        self._list(enter, "TensorListFromTensor", dtype, [argument(number), self._shape(enter, _UNKNOWN)])

    def start_empty(self, enter: str, dtype: int, dims: Sequence[int]) -> None:
        """Brings in a list without elements; of `dims`, of an element, here and below, those below 0 are unknown."""
        self._list(enter, "EmptyTensorList", dtype, [self._shape(enter, dims), self._constant(f"{enter}/tfs_most", -1)])

    def start_reserved(self, enter: str, number: int, dtype: int, dims: Sequence[int]) -> None:
        """Brings in a list of as many elements as the op's input says."""
        self._list(enter, "TensorListReserve", dtype, [self._shape(enter, dims), argument(number)])

    def stack(self, exit_: str, dtype: int, sizes: Sequence[SizeExpression | None]) -> str:
        """The tensor of a list's elements after the loop; of `sizes`, of an element, None is unknown.

        TensorListStack raises where there are no elements and no sizes; the program may never stack the list, or tell
        the sizes. Those that the op's inputs have are read there, any other is 0 if the list is empty.
        """
        nodes = SizeNodes(lambda: f"{exit_}/tfs_shape_{next(self._numbers)}")
        shape = nodes.vector([_UNKNOWN if size is None else size for size in sizes], "")
        self.graph.node.extend(nodes.new)
        if None in sizes:
            length = self._node(f"{exit_}/tfs_length", "TensorListLength", [exit_])
            least = self._node(f"{exit_}/tfs_least", "Neg", [length], tf.int32)
            shape = self._node(f"{exit_}/tfs_shape", "Maximum", [shape, least], tf.int32)
        node = self.graph.node.add(name=f"{exit_}/tfs_stack", op="TensorListStack", input=[exit_, shape])
        node.attr["element_dtype"].type = dtype
        node.attr["num_elements"].i = -1
        return f"{node.name}:0"

    def _node(self, name: str, op: str, inputs: Sequence[str], dtype: tf.DType | None = None) -> str:
        node = self.graph.node.add(name=name, op=op, input=inputs)
        if dtype is not None:
            node.attr["T"].type = dtype.as_datatype_enum
        return name

    def _list(self, enter: str, op: str, dtype: int, inputs: Sequence[str]) -> None:
        node = self.graph.node.add(name=f"{enter}/tfs_list", op=op, input=inputs)
        node.attr["element_dtype"].type = dtype
        node.attr["shape_type"].type = tf.int32.as_datatype_enum
        self._defs[enter].input[:] = [node.name]

    def _shape(self, name: str, dims: Sequence[int] | int) -> str:
        known = dims if isinstance(dims, int) else [max(dim, _UNKNOWN) for dim in dims]
        return self._constant(f"{name}/tfs_shape", known)

    def _constant(self, name: str, value: Sequence[int] | int) -> str:
        node = self.graph.node.add(name=name, op="Const")
        node.attr["dtype"].type = tf.int32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype=tf.int32))
        return str(node.name)


def argument(number: int) -> str:
    """What the op's input is called there."""
    return f"tfs_{input_key(number)}:0"


def _needed(frame: LoopFrame, exits: Sequence[str]) -> Collection[str]:
    defs = {node.name: node for node in frame.nodes}
    found: set[str] = set()
    pending = list(exits)
    while pending:
        name = pending.pop()
        if name in defs and name not in found:
            found.add(name)
            pending += [producer_of(t) for t in defs[name].input]
    return found
