"""Sizes read where they are known first: from the graph's arguments.

A random op that asks for the shape of what it is drawn for (dropout) waits for the work before it, and the work after
it waits for the random op: no region can hold both. So it is with a Reshape to the shape of another tensor, for the
Shape is in no region. Where every such size is provably an argument's, it is read from that argument; and where it
comes from the middle of the graph (a convolution's result), from the first tensor there that no region holds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from tf_stitch.integration.control_context import control_contexts, frame_names
from tf_stitch.integration.graph_item import OutputType
from tf_stitch.integration.pruning import prune
from tf_stitch.ir.types import Dim, Symbol

_INT32 = AttrValue(type=DT_INT32)


def import_resized(graph_def: GraphDef, types_of: TypesOf, library_on: Scope, own: Mapping[str, Legalization],
                   preserved: frozenset[str]) -> ImportedGraph:
    """Imports a graph, as import_graph, whose nodes have first been made to read sizes from arguments, or from what
    else is there before any region, in place, where they would wait for work to be told. Whom the arithmetic of sizes
    was made to wait for is waited for still. Branches and loops, where a size may tell an op when it is dead, are left
    alone.

    Args:
        preserved: names of nodes that must exist afterwards.
    """
    imported = import_graph(graph_def, types_of, library_on, own)
    outside = {name for name, context in control_contexts(imported, frame_names(graph_def)).items() if not context}
    waiting = _waiting(imported)
    late = {name for name in outside & waiting - _held(imported) if imported.nodes[name].weight == 0}
    sizes = _Sizes(imported, types_of, _sources(imported, outside - waiting), _sources(imported, outside))
    changes = [(node, index, again) for node in graph_def.node
               if node.name in outside and imported.nodes[node.name].reason != SHAPE_ARITHMETIC
               for index, edge in enumerate(node.input) if producer_of(edge) in late and not edge.startswith("^")
               if (again := sizes.again(canonical_tensor(edge), node.device)) is not None]
    if not changes:
        return imported
    before = GraphDef()
    before.CopyFrom(graph_def)
    for node, index, again in changes:
        node.input[index] = again
    graph_def.node.extend(sizes.new)
    prune(graph_def, before, preserved)
    return import_graph(graph_def, lambda name: sizes.types.get(name) or types_of(name), library_on, own)


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
class _Source:
    """A size of a tensor that waits for no region."""

    tensor: str
    rank: int
    axis: int


def _sources(imported: ImportedGraph, first: set[str]) -> dict[Dim, _Source]:
    """Symbol -> which of the nodes `first`, those that regions may hold left out, has it first: an argument, if one
    has."""
    found: dict[Dim, _Source] = {}
    nodes = [n for n in imported.nodes.values() if n.name in first and n.reason not in (None, SHAPE_ARITHMETIC)]
    for node in sorted(nodes, key=lambda n: n.op not in ARGUMENTS):
        for index, value in enumerate(node.outputs):
            for axis, dim in enumerate(() if value is None else value.type.shape):
                if value is not None and isinstance(dim, Symbol):
                    found.setdefault(dim, _Source(f"{node.name}:{index}", value.type.rank, axis))
    return found


class _Sizes:
    """New nodes that read sizes from arguments; each vector once on each device.

    Args:
        sources: what has a size and waits for no region.
        later: what has one and may wait for some: it serves those that wait for it already.
    """

    def __init__(self, imported: ImportedGraph, types_of: TypesOf, sources: Mapping[Dim, _Source],
                 later: Mapping[Dim, _Source]) -> None:
        self._imported, self._types_of, self._sources, self._later = imported, types_of, sources, later
        self._after: dict[str, set[str]] = {}
        self._made: dict[tuple[object, ...], str] = {}
        self._numbers = itertools.count()
        self.new: list[NodeDef] = []
        self.types: dict[str, list[OutputType]] = {}

    def again(self, tensor: str, device: str) -> str | None:
        """A new node's tensor of the same sizes, int32, on a device; None if sources do not tell all of them."""
        sizes = self._imported.statics.get(tensor)
        name, _, index = tensor.rpartition(":")
        output = self._types_of(name)[int(index)]
        if sizes is None or output[0] != DT_INT32 or sizes.ndim > 1:
            return None
        symbols = {e for e in sizes.flat if not isinstance(e, int)}
        found = {e: source for e in symbols if (source := self._source(e, name)) is not None}
        if len(found) < len(symbols):
            return None
        if is_fixed(sizes):
            return self._constant(sizes, device)
        parts = [self._constant(np.array(e), device) if isinstance(e, int) else self._size(found[e])
                 for e in sizes.flat]
        if sizes.ndim == 0:
            return parts[0]
        return self._node("Pack", parts, device, [output], N=AttrValue(i=len(parts)), T=_INT32,
                          axis=AttrValue(i=0))  # fmt: skip

    def _source(self, symbol: Dim | None, reader: str) -> _Source | None:
        """What has a size, for those who read it from node `reader` now; None if nothing that they could wait for."""
        if not isinstance(symbol, Symbol):
            return None
        if symbol in self._sources:
            return self._sources[symbol]
        later = self._later.get(symbol)
        decided = symbol.name in self._imported.data_sizes  # no region holds what has that size
        if later is None or decided or reader not in self._those_after(later.tensor.rpartition(":")[0]):
            return None
        return later

    def _those_after(self, first: str) -> set[str]:
        """Nodes that wait for a node."""
        if first not in self._after:
            found = {first}
            for node in self._imported.nodes.values():
                before = (*node.control_inputs, *(tensor.rpartition(":")[0] for tensor in node.inputs))
                if not found.isdisjoint(before):
                    found.add(node.name)
            self._after[first] = found
        return self._after[first]

    def _size(self, source: _Source) -> str:
        """Where its source is: only the shape of that goes elsewhere."""
        name, _, index = source.tensor.rpartition(":")
        device = self._imported.nodes[name].device
        shape = self._node("Shape", [source.tensor], device, [(DT_INT32, (source.rank,))],
                           T=AttrValue(type=self._types_of(name)[int(index)][0]), out_type=_INT32)  # fmt: skip
        first, end, one = (self._constant(np.array([n]), device) for n in (source.axis, source.axis + 1, 1))
        return self._node("StridedSlice", [shape, first, end, one], device, [(DT_INT32, ())], T=_INT32, Index=_INT32,
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
