"""Sizes read where they are known first: from the graph's arguments.

A random op that asks for the shape of what it is drawn for (dropout) waits for the work before it, and the work after
it waits for the random op: no region can hold both. So it is with a Reshape to the shape of another tensor, for the
Shape is in no region. Where every such size is provably an argument's, it is read from that argument."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from tensorflow import int32, make_tensor_proto
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_INT32

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC, TypesOf, import_graph
from tf_stitch.frontend.tensorflow.loop_shapes import ARGUMENTS
from tf_stitch.frontend.tensorflow.node_context import StaticValue, is_fixed
from tf_stitch.frontend.tensorflow.products import Scope
from tf_stitch.frontend.tensorflow.registry import Legalization
from tf_stitch.frontend.tensorflow.size_names import factors, joins, parts
from tf_stitch.integration.control_context import control_contexts, frame_names
from tf_stitch.integration.graph_item import OutputType
from tf_stitch.integration.pruning import prune
from tf_stitch.ir.types import Dim, Symbol

_INT32 = AttrValue(type=DT_INT32)


@dataclass(frozen=True)
class Resized:
    """An imported graph, and the types of its nodes."""

    imported: ImportedGraph
    types_of: TypesOf


def import_resized(graph_def: GraphDef, types_of: TypesOf, library_on: Scope, own: Mapping[str, Legalization],
                   preserved: frozenset[str]) -> Resized:
    """Imports a graph, as import_graph, whose nodes have first been made to read sizes from arguments, or from what
    else is there before any region, in place, where they would wait for work to be told. Whom the arithmetic of sizes
    was made to wait for is waited for still. Branches and loops, where a size may tell an op when it is dead, are left
    alone.

    Args:
        preserved: names of nodes that must exist afterwards.
    """
    imported = import_graph(graph_def, types_of, library_on, own)
    outside = outer_nodes(graph_def, imported)
    late = {name for name in outside & _waiting(imported) - _held(imported) if imported.nodes[name].weight == 0}
    sizes = ArgumentSizes(imported, types_of, outside)
    changes = [(node, index, again) for node in graph_def.node
               if node.name in outside and imported.nodes[node.name].reason != SHAPE_ARITHMETIC
               for index, edge in enumerate(node.input) if producer_of(edge) in late and not edge.startswith("^")
               if (again := sizes.again(canonical_tensor(edge), node.device)) is not None]
    if not changes:
        return Resized(imported, types_of)
    before = GraphDef()
    before.CopyFrom(graph_def)
    for node, index, again in changes:
        node.input[index] = again
    graph_def.node.extend(sizes.new)
    prune(graph_def, before, preserved)

    def types(name: str) -> list[OutputType]:
        return sizes.types.get(name) or types_of(name)

    return Resized(import_graph(graph_def, types, library_on, own), types)


def outer_nodes(graph_def: GraphDef, imported: ImportedGraph) -> set[str]:
    """Nodes of no branch or loop."""
    return {name for name, context in control_contexts(imported, frame_names(graph_def)).items() if not context}


def _waiting(imported: ImportedGraph) -> set[str]:
    """Nodes that regions may hold, and all that wait for such."""
    found: set[str] = set()
    for node in imported.nodes.values():
        fits = node.reason is None and node.op != "Const"
        before = (*node.control_inputs, *(tensor.rpartition(":")[0] for tensor in node.inputs))
        if fits or not found.isdisjoint(before):
            found.add(node.name)
    return found


def _held(imported: ImportedGraph) -> set[str]:
    """What costs nothing and is made to wait by control edges, itself or by what it reads."""
    found: set[str] = set()
    for node in imported.nodes.values():
        held = node.control_inputs or any(tensor.rpartition(":")[0] in found for tensor in node.inputs)
        if held and not node.weight:
            found.add(node.name)
    return found


@dataclass(frozen=True)
class Source:
    """A size of a tensor that waits for no region."""

    tensor: str
    rank: int
    axis: int


def sources(imported: ImportedGraph, outside: set[str]) -> dict[Symbol, Source]:
    """Symbol -> which of the nodes that wait for no region has it: an argument, if one has.

    Args:
        outside: nodes of no branch or loop.
    """
    found: dict[Symbol, Source] = {}
    first = outside - _waiting(imported)
    nodes = [n for n in imported.nodes.values() if n.name in first and n.reason not in (None, SHAPE_ARITHMETIC)]
    for node in sorted(nodes, key=lambda n: n.op not in ARGUMENTS):
        for index, value in enumerate(node.outputs):
            for axis, dim in enumerate(() if value is None else value.type.shape):
                if value is not None and isinstance(dim, Symbol):
                    found.setdefault(dim, Source(f"{node.name}:{index}", value.type.rank, axis))
    return found


class ArgumentSizes:
    """New nodes that read sizes from arguments; each vector once on each device. `types` are those of `new`.

    Args:
        outside: nodes of no branch or loop.
    """

    def __init__(self, imported: ImportedGraph, types_of: TypesOf, outside: set[str]) -> None:
        self._imported, self._types_of = imported, types_of
        self._sources = sources(imported, outside)
        self._made: dict[tuple[object, ...], str] = {}
        self._numbers = itertools.count()
        self.new: list[NodeDef] = []
        self.types: dict[str, list[OutputType]] = {}

    def again(self, tensor: str, device: str) -> str | None:
        """A new node that gives the same sizes, int32, on a device; None if sources do not tell all of them."""
        sizes = self._imported.statics.get(tensor)
        if sizes is None or sizes.ndim > 1 or not all(map(self._is_told, sizes.flat)):
            return None
        name, _, index = tensor.rpartition(":")
        output = self._types_of(name)[int(index)]
        if output[0] != DT_INT32:
            return None
        if is_fixed(sizes):
            return self._constant(sizes, device)
        parts = [self._size(e, device) for e in sizes.flat]
        if sizes.ndim == 0:
            return parts[0]
        return self._node("Pack", parts, device, [output], N=AttrValue(i=len(parts)), T=_INT32,
                          axis=AttrValue(i=0))  # fmt: skip

    def _is_told(self, size: Dim | None) -> bool:
        """A product of joined sizes is not: where it is 0 they may contradict each other."""
        if not isinstance(size, Symbol):
            return size is not None
        return size in self._sources or (all(part in self._sources for part in parts(size))
                                         and (not joins(size) or joins(size) == [size]))

    def _size(self, size: Dim, device: str) -> str:
        """Of a source where that is: only the shape of it goes elsewhere."""
        if isinstance(size, int):
            return self._constant(np.array(size), device)
        if size in self._sources:
            return self._read(self._sources[size])
        if joins(size):
            lines = [self._line(self._size(part, device), device) for part in sorted(parts(size), key=str)]
            line = reduce(lambda a, b: self._node("BroadcastArgs", [a, b], device, [(DT_INT32, (1,))], T=_INT32), lines)
            return self._element(line, 0, device)
        numbers = [self._size(factor, device) for factor in factors(size)]
        return reduce(lambda a, b: self._node("Mul", [a, b], device, [(DT_INT32, ())], T=_INT32), numbers)

    def _line(self, scalar: str, device: str) -> str:
        return self._node("Pack", [scalar], device, [(DT_INT32, (1,))], N=AttrValue(i=1), T=_INT32, axis=AttrValue(i=0))

    def _read(self, source: Source) -> str:
        name, _, index = source.tensor.rpartition(":")
        device = self._imported.nodes[name].device
        shape = self._node("Shape", [source.tensor], device, [(DT_INT32, (source.rank,))],
                           T=AttrValue(type=self._types_of(name)[int(index)][0]), out_type=_INT32)  # fmt: skip
        return self._element(shape, source.axis, device)

    def _element(self, vector: str, index: int, device: str) -> str:
        first, end, one = (self._constant(np.array([n]), device) for n in (index, index + 1, 1))
        return self._node("StridedSlice", [vector, first, end, one], device, [(DT_INT32, ())], T=_INT32, Index=_INT32,
                          shrink_axis_mask=AttrValue(i=1))  # fmt: skip

    def _constant(self, value: StaticValue, device: str) -> str:
        proto = make_tensor_proto(value.tolist(), int32, value.shape)
        return self._node("Const", [], device, [(DT_INT32, value.shape)], value=AttrValue(tensor=proto),
                          dtype=_INT32)  # fmt: skip

    def _node(self, op: str, inputs: Sequence[str], device: str, types: list[OutputType], **attrs: AttrValue) -> str:
        """The name of such a node; there is one of each."""
        key = (op, *inputs, device, *(a.SerializeToString() for a in attrs.values()))
        if key not in self._made:
            name = next(name for i in self._numbers if (name := f"tf_stitch_sizes/{i}") not in self._imported.nodes)
            node = NodeDef(name=name, op=op, device=device, input=inputs)
            for attr, value in attrs.items():
                node.attr[attr].CopyFrom(value)
            self.new.append(node)
            self.types[node.name] = types
            self._made[key] = node.name
        return self._made[key]
