"""Sizes read where they are known first: from the graph's arguments.

A random op that asks for the shape of what it is drawn for (dropout) waits for the work before it, and the work after
it waits for the random op: no region can hold both. So it is with a Reshape to the shape of another tensor, for the
Shape is in no region. Where every such size is provably an argument's, it is read from that argument; and where it
comes from the middle of the graph (a convolution's result), from the first tensor there that no region holds."""

from __future__ import annotations

import itertools
from dataclasses import replace

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.types_pb2 import DT_INT32

from tf_stitch.frontend.tensorflow.control_context import control_contexts, frame_names
from tf_stitch.frontend.tensorflow.control_flow import SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC, TypesOf
from tf_stitch.frontend.tensorflow.loop_shapes import ARGUMENTS
from tf_stitch.frontend.tensorflow.node_context import StaticValue, is_fixed
from tf_stitch.frontend.tensorflow.size_names import parts
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.pruning import prune
from tf_stitch.graph.shapes.given_sizes import GivenSizes
from tf_stitch.graph.shapes.rewired_import import rewired_import
from tf_stitch.graph.shapes.size_nodes import SizeExpression, SizeNodes, SizeSource, size_of
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.types import Dim, Symbol


def read_sizes_from_arguments(state: GraphState) -> GraphState:
    """Makes nodes read sizes from arguments, or from what else is there before any region, where they would wait for
    work to be told. Whom the arithmetic of sizes was made to wait for is waited for still. Branches and loops, where a
    size may tell an op when it is dead, are left alone."""
    imported, types_of = state.imported, state.types_of
    outside = outer_nodes(state.graph_def, imported)
    late = {name for name in outside & _waiting(imported) - _held(imported) if imported.nodes[name].weight == 0}
    sizes = ArgumentSizes(imported, types_of, outside)
    changes = [(number, index, again) for number, node in enumerate(state.graph_def.node)
               if node.name in outside and imported.nodes[node.name].reason != SHAPE_ARITHMETIC
               for index, edge in enumerate(node.input) if producer_of(edge) in late and not edge.startswith("^")
               if (again := sizes.again(canonical_tensor(edge), node.device)) is not None]
    if not changes:
        return state
    graph_def = state.copy_graph()
    statics: dict[str, StaticValue] = {}
    for number, index, again in changes:
        node = graph_def.node[number]
        statics[canonical_tensor(again)] = imported.statics[canonical_tensor(node.input[index])]
        node.input[index] = again
    graph_def.node.extend(sizes.new)
    prune(graph_def, state.graph_def, state.preserved)

    def types(name: str) -> list[OutputType]:
        return sizes.types.get(name) or types_of(name)

    after = rewired_import(imported, graph_def, sizes.new, types, statics)
    before = state.graph_def.node
    given = GivenSizes({(before[number].name, index): before[number].input[index] for number, index, _ in changes},
                       {node.name: node for node in before})
    return replace(state.with_graph(graph_def, types), given_sizes=given).with_import(after)


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


def sources(imported: ImportedGraph, types_of: TypesOf, outside: set[str]) -> dict[Symbol, SizeSource]:
    """Symbol -> which of the nodes that wait for no region has it: an argument, if one has.

    Args:
        outside: nodes of no branch or loop.
    """
    return _sources(imported, types_of, outside - _waiting(imported))


def _sources(imported: ImportedGraph, types_of: TypesOf, first: set[str]) -> dict[Symbol, SizeSource]:
    """Symbol -> which of the nodes `first`, those that regions may hold left out, has it first: an argument, if one
    has."""
    found: dict[Symbol, SizeSource] = {}
    # A Switch stands outside of its branches, but what it gives is there in one of them alone.
    nodes = [n for n in imported.nodes.values()
             if n.name in first and n.reason not in (None, SHAPE_ARITHMETIC) and n.op not in SWITCHES]
    for node in sorted(nodes, key=lambda n: n.op not in ARGUMENTS):
        types = types_of(node.name)
        for index, value in enumerate(node.outputs):
            for axis, dim in enumerate(() if value is None else value.type.shape):
                if value is not None and isinstance(dim, Symbol):
                    found.setdefault(dim, SizeSource(f"{node.name}:{index}", types[index][0], value.type.rank, axis,
                                                     node.device))
    return found


class ArgumentSizes(SizeNodes):
    """New nodes that read sizes from arguments, or else from what may wait for some region where who asks waits for
    that already.

    Args:
        outside: nodes of no branch or loop.
    """

    def __init__(self, imported: ImportedGraph, types_of: TypesOf, outside: set[str]) -> None:
        names = (f"tf_stitch_sizes/{i}" for i in itertools.count())
        super().__init__(lambda: next(name for name in names if name not in imported.nodes))
        self._imported, self._types_of = imported, types_of
        self._sources, self._later = sources(imported, types_of, outside), _sources(imported, types_of, outside)
        self._after: dict[str, set[str]] = {}

    def again(self, tensor: str, device: str) -> str | None:
        """A new node that gives the same sizes, int32, on a device; None if sources do not tell all of them."""
        sizes = self._imported.statics.get(tensor)
        if sizes is None or sizes.ndim > 1:
            return None
        name, _, index = tensor.rpartition(":")
        found = [size for e in sizes.flat if (size := self._size(e, name)) is not None]
        if self._types_of(name)[int(index)][0] != DT_INT32 or len(found) < sizes.size:
            return None
        if is_fixed(sizes):
            return self.constant(sizes, device)
        return self.vector(found, device) if sizes.ndim else self.scalar(found[0], device)

    def _size(self, size: Dim | None, reader: str) -> SizeExpression | None:
        """From what waits for no region, if that tells it, though it be computed."""
        first = size_of(size, self._sources)
        if first is not None or not isinstance(size, Symbol):
            return first
        known = {s: source for s in (size, *parts(size)) if (source := self._source(s, reader)) is not None}
        return size_of(size, known)

    def _source(self, symbol: Symbol, reader: str) -> SizeSource | None:
        """What has a size, for those who read it from node `reader` now; None if nothing that they could wait for."""
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
