"""Types of a graph with branches or loops, in which what holds in a branch or a body holds nowhere else.

TensorFlow's inference gives one name, or one number, to sizes that an op needs to be equal, in the whole graph: a
matmul in a branch that is not taken, or in a loop of no trips, then says what the sizes of the function's arguments
are. Here each entrance (a Switch, or an Enter that all trips read) hands on what is known of its input, as Pad and
StridedSlice do: a number, but no name. Names are given back afterwards: those from outside hold inside, and a Merge has
those that all of its inputs have. The parts of a DynamicPartition, whose lengths have one name there, get a name each.
So does each size of a result of an op that is not believed (`doubted_sizes`): numbers alone pass into it, and out of it
where its numbers are right, so that what meets one of its results says nothing of another, nor of its operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.grappler import item as grappler_item

from tf_stitch.frontend.tensorflow.control_flow import ENTERS, MERGES, NEXT_ITERATIONS
from tf_stitch.frontend.tensorflow.dtypes import DT_RESOURCE
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.graph.shapes.doubted_sizes import (
    always_miscounted,
    doubted_for_integers,
    doubted_for_pairs,
    doubted_nodes,
    miscounted_nodes,
)

Types: TypeAlias = list[tuple[int, tuple[int, ...] | None]]
_PARTITION = "DynamicPartition"
_SWITCHES = frozenset({"Switch", "_SwitchN"})
_HANDLES = frozenset({DT_RESOURCE, tf.variant.as_datatype_enum})
"""Their shape is nothing; what they lead to is not cut."""
_INTEGERS = frozenset({tf.int32.as_datatype_enum, tf.int64.as_datatype_enum})
_TYPES = {"_Arg": "T", "Placeholder": "dtype", "PlaceholderWithDefault": "dtype"}
"""What is given from outside -> the attribute that says its type."""


def types_between_branches(graph_def: GraphDef, types_of: TypesOf) -> TypesOf:
    """Types of every node's outputs, with sizes of which only what holds wherever the node runs is said.

    Args:
        types_of: as TensorFlow infers them; these are what is given for a graph without branches and loops.
    """
    entrances = [node for node in graph_def.node
                 if node.op in _SWITCHES or (node.op in ENTERS and node.attr["is_constant"].b)]  # fmt: skip
    partitions = [node for node in graph_def.node if node.op == _PARTITION]
    doubted = doubted_nodes(graph_def)
    if not entrances and not partitions and not doubted:
        return types_of
    constants = {node.name for node in graph_def.node if node.op == "Const"}
    miscounted = {node.name for node in miscounted_nodes(graph_def)} if doubted else set()
    doubted = [node for node in doubted if not _is_right(node, types_of, constants)]

    @cache
    def found() -> Mapping[str, Types]:
        cut = [node for node in entrances if _can_be_cut(node, types_of)]
        parted = [node for node in partitions if _has_rows(node, types_of)]
        wrong = [node for node in doubted if _may_be_wrong(node, types_of) or node.op in always_miscounted()
                 or (node.name in miscounted and _has_open_integers(node, types_of, constants))]  # fmt: skip
        unsure = doubted if wrong else []
        unknown = miscounted & {node.name for node in wrong}
        if not cut and not parted and not unsure:
            return {}
        nodes = {node.name: node for node in graph_def.node}
        inferred = _inferred(_cut_graph(graph_def, cut, parted, unsure, unknown, types_of), nodes)
        for node in (*cut, *parted, *unsure):
            parts = itertools.takewhile(inferred.__contains__, (_part(node.name, i) for i in itertools.count()))
            inferred[node.name] = [inferred[part][0] for part in parts]
        return _named(nodes, cut, inferred)

    return lambda name: found().get(name) or types_of(name)


def _can_be_cut(entrance: NodeDef, types_of: TypesOf) -> bool:
    types = types_of(entrance.name)
    return bool(types) and types[0][0] not in _HANDLES and types[0][1] != ()


def _has_rows(partition: NodeDef, types_of: TypesOf) -> bool:
    """Whether it parts the rows of a tensor of a known rank; what it makes of anything else has no name."""
    rows, numbers = (types_of(producer_of(canonical_tensor(t)))[int(canonical_tensor(t).rpartition(":")[2])][1]
                     for t in partition.input[:2])
    return rows is not None and numbers is not None and len(numbers) == 1


def _may_be_wrong(node: NodeDef, types_of: TypesOf) -> bool:
    """Whether a doubted node may have names: a size of a result that it does not compute from numbers. What looks like
    one may be a number that its name met elsewhere."""
    sizes = [*(dims for _, _, dims in _operands(node, types_of)), *(dims for _, dims in types_of(node.name))]
    return any(dims is None or any(dim < 0 for dim in dims) for dims in sizes)


def _is_right(node: NodeDef, types_of: TypesOf, constants: Set[str]) -> bool:
    """Whether a doubted op's sizes are right in this node."""
    if node.op in doubted_for_pairs():
        ends = [(dims[0], dims[-1]) for _, _, dims in _operands(node, types_of) if dims]
        return len(ends) > 1 and ends[0] == ends[1] and -1 not in ends[0]
    return node.op in doubted_for_integers() and not _has_open_integers(node, types_of, constants)


def _has_open_integers(node: NodeDef, types_of: TypesOf, constants: Set[str]) -> bool:
    """Whether sizes of a result may be computed from integers that inference does not know, behind the data that a node
    reads first. It knows constants."""
    return any(place > 0 and dtype in _INTEGERS and producer_of(canonical_tensor(node.input[place])) not in constants
               for place, dtype, _ in _operands(node, types_of))


def _operands(node: NodeDef, types_of: TypesOf) -> Iterator[tuple[int, int, tuple[int, ...] | None]]:
    """(place among the inputs, DataType, dimensions) of each tensor that a node reads and that has a type."""
    for place, text in enumerate(node.input):
        name, _, index = canonical_tensor(text).rpartition(":")
        if not text.startswith("^") and int(index) < len(types := types_of(name)):
            yield place, *types[int(index)]


def _cut_graph(graph_def: GraphDef, entrances: Sequence[NodeDef], partitions: Sequence[NodeDef],
               doubted: Sequence[NodeDef], unknown: Set[str], types_of: TypesOf) -> GraphDef:
    """Each output of an entrance is a slice of its padded input, of a partition rows of its input, and of a doubted
    node a slice of its padded output, by the name of `_part`: for inference alone. Of that nothing is known where the
    rank is not. Of outputs of the doubted nodes in `unknown` the rank alone is known."""
    graph, data = GraphDef(), dict[str, str]()
    cut = {node.name for node in (*entrances, *partitions, *doubted)}
    graph.CopyFrom(graph_def)
    for node in list(graph.node):
        for place, text in enumerate(node.input):
            name, _, index = canonical_tensor(text).rpartition(":") if not text.startswith("^") else ("", "", "")
            if name in cut:
                node.input[place] = _part(name, int(index))
        if node.op in _TYPES:
            _say_shape(graph, node)
        if node.name in cut:
            data[node.name] = node.input[0]
    copies = {node.name: node for node in graph.node}
    for node in doubted:
        for place, dtype, dims in _operands(node, types_of):
            if copies[producer_of(node.input[place])].op != "Const" and dims != () and dtype not in _HANDLES:
                operand = f"{node.name}/tfs_operand{place}"
                _numbers_of(graph, operand, copies[node.name].input[place], dtype, dims)
                copies[node.name].input[place] = operand
        for number, (dtype, dims) in enumerate(types_of(node.name)):
            part = _part(node.name, number)
            if node.name in unknown:
                _given(graph, part, dtype, dims)
            else:
                _numbers_of(graph, part, f"{node.name}:{number}", dtype, dims)
    axis = _constant(graph, f"{partitions[0].name}/tfs_axis", np.array(0, np.int32)) if partitions else ""
    for node in partitions:
        _add_rows(graph, node, data[node.name], axis)
    for entrance in entrances:
        dtype, dims = types_of(entrance.name)[0]
        for number in range(len(types_of(entrance.name))):
            _numbers_of(graph, _part(entrance.name, number), data[entrance.name], dtype, dims)
    return graph


def _add_rows(graph: GraphDef, partition: NodeDef, data: str, axis: str) -> None:
    """Each output of a partition: some rows of its input."""
    for number in range(partition.attr["num_partitions"].i):
        part = _part(partition.name, number)
        rows = _given(graph, f"{part}/tfs_rows", tf.int32.as_datatype_enum, (-1,))
        _add(graph, part, "GatherV2", [data, rows, axis], Tparams=partition.attr["T"].type, Tindices=tf.int32,
             Taxis=tf.int32)  # fmt: skip


def _part(entrance: str, index: int) -> str:
    return f"{entrance}/tfs_part{index}"


def _add(graph: GraphDef, name: str, op: str, inputs: Sequence[str], **types: Any) -> str:
    node = graph.node.add(name=name, op=op, input=inputs)
    for attr, dtype in types.items():
        node.attr[attr].type = tf.as_dtype(dtype).as_datatype_enum
    return name


def _constant(graph: GraphDef, name: str, value: np.ndarray[Any, Any]) -> str:
    _add(graph, name, "Const", [], dtype=tf.int32)
    graph.node[-1].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return name


def _given(graph: GraphDef, name: str, dtype: int, dims: Sequence[int] | None = None) -> str:
    """Adds a node of whose value nothing is known but the rank of `dims`, if there are any."""
    given = name if dims is None or dtype in _HANDLES else f"{name}/tfs_given"
    _add(graph, given, "_Arg", [], T=dtype)
    graph.node[-1].attr["index"].i = 0
    if given != name:
        _add(graph, name, "EnsureShape", [given], T=dtype)
        for _ in dims or ():
            graph.node[-1].attr["shape"].shape.dim.add(size=-1)
    return name


def _numbers_of(graph: GraphDef, name: str, tensor: str, dtype: int, dims: Sequence[int] | None) -> None:
    """Adds a node with the numbers among a tensor's sizes, and none of their names.

    Args:
        dims: the tensor's, of which the rank alone counts; None has nothing known.
    """
    if dims is None or dtype in _HANDLES:
        _given(graph, name, dtype)
        return
    ends = {value: _constant(graph, f"{name}/tfs_{value}", np.full(len(dims), value, np.int32)) for value in (-1, 1)}
    pads = _constant(graph, f"{name}/tfs_pads", np.ones((len(dims), 2), np.int32))
    padded = _add(graph, f"{name}/tfs_padded", "Pad", [tensor, pads], T=dtype, Tpaddings=tf.int32)
    _add(graph, name, "StridedSlice", [padded, ends[1], ends[-1], ends[1]], T=dtype, Index=tf.int32)


def _say_shape(graph: GraphDef, node: NodeDef) -> None:
    """Inference of an item would say nothing of what is given from outside: it may be fed."""
    dtype, shape = node.attr[_TYPES[node.op]].type, TensorShapeProto(unknown_rank=True)
    if node.attr["_output_shapes"].list.shape:
        shape = node.attr["_output_shapes"].list.shape[0]
    elif "shape" in node.attr:
        shape = node.attr["shape"].shape
    if dtype in _HANDLES:
        return
    name, given = node.name, _given(graph, f"{node.name}/tfs_given", dtype)
    node.Clear()
    node.name, node.op = name, "EnsureShape"
    node.input.append(given)
    node.attr["T"].type = dtype
    node.attr["shape"].shape.CopyFrom(shape)


def inferred_types(graph_def: GraphDef) -> dict[str, Types]:
    """Types of every node's outputs, as TensorFlow infers them; placeholders have the shapes that they say."""
    graph = GraphDef()
    graph.CopyFrom(graph_def)
    for node in list(graph.node):
        if node.op in _TYPES:
            _say_shape(graph, node)
    return _inferred(graph, {node.name: node for node in graph_def.node})


def _inferred(graph: GraphDef, nodes: Mapping[str, NodeDef]) -> dict[str, Types]:
    used = {producer_of(canonical_tensor(i)) for n in graph.node for i in n.input if not i.startswith("^")}
    meta = MetaGraphDef(graph_def=graph)
    meta.collection_def["train_op"].node_list.value.extend(name for name in nodes if name not in used)
    properties = grappler_item.Item(meta, ignore_user_placement=False).GetOpProperties()
    return {name: [(p.dtype, None if p.shape.unknown_rank else tuple(d.size for d in p.shape.dim)) for p in outputs]
            for name, outputs in properties.items()}  # fmt: skip


def _named(nodes: Mapping[str, NodeDef], entrances: Sequence[NodeDef], inferred: dict[str, Types]) -> dict[str, Types]:
    """Names from outside of branches hold in them, and behind a Merge those that all of its inputs have.

    Only names that have none yet get one: two names that a branch takes for one stay two outside of it.
    """
    names = _Names(nodes, inferred)
    merges = [node for node in nodes.values() if node.op in MERGES]
    while sum(names.hand_on(node) for node in (*entrances, *merges)):  # all of them, each time
        pass
    return {name: [(dtype, shape and tuple(map(names.of, shape))) for dtype, shape in types]
            for name, types in inferred.items()}  # fmt: skip


class _Names:
    """Which names of sizes are others."""

    def __init__(self, nodes: Mapping[str, NodeDef], inferred: Mapping[str, Types]) -> None:
        self._nodes, self._inferred = nodes, inferred
        self._names: dict[int, int] = {}

    def of(self, dim: int) -> int:
        """What a size is called."""
        while dim in self._names:
            dim = self._names[dim]
        return dim

    def hand_on(self, node: NodeDef) -> bool:
        """Gives the sizes of an entrance or a Merge the names that its inputs have; whether one is new."""
        inputs = [i for i in node.input if not i.startswith("^")][:None if node.op in MERGES else 1]
        back = [self._dims(i) for i in inputs if _op(self._nodes, i) in NEXT_ITERATIONS]
        shapes = [self._dims(i) for i in inputs if _op(self._nodes, i) not in NEXT_ITERATIONS]
        before = len(self._names)
        for _, shape in self._inferred.get(node.name, []):
            for axis, dim in enumerate(shape or ()):
                theirs, again = self._at(axis, shapes), self._at(axis, back) - {dim}  # a trip keeps it
                name = theirs.pop()
                is_free = dim < -1 and dim not in self._names
                if is_free and name < -1 and name != dim and not theirs and again <= {name}:
                    self._names[dim] = name
        return len(self._names) > before

    def _at(self, axis: int, shapes: Sequence[tuple[int, ...]]) -> set[int]:
        """Names of an axis; -1 where a shape has none."""
        return {self.of(shape[axis]) if axis < len(shape) else -1 for shape in shapes}

    def _dims(self, tensor: str) -> tuple[int, ...]:
        name, _, index = canonical_tensor(tensor).rpartition(":")
        types = self._inferred.get(name, [])
        return (types[int(index)][1] or ()) if int(index) < len(types) else ()


def _op(nodes: Mapping[str, NodeDef], tensor: str) -> str:
    return str(nodes[producer_of(tensor)].op)
