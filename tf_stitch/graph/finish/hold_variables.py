"""Regions hold the variables that their function holds: no handle is made and looked up in a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.held_handles import NUMBER
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.variable_ops import HELD_HANDLE
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class HoldVariables:
    """Gives regions the numbers of their function's variables, and removes handles that nobody reads any more."""

    name: str = "hold_variables"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not any(node.op == HELD_HANDLE for node in state.graph_def.node):
            return PassResult(state, False)
        graph_def = state.copy_graph()
        hold_variables(graph_def, state.preserved)
        return PassResult(state.with_graph(graph_def), True)


def hold_variables(graph_def: GraphDef, preserved: frozenset[str]) -> None:
    """As HoldVariables, in place."""
    handles = {node.name: node for node in graph_def.node if node.op == HELD_HANDLE}
    for node in graph_def.node:
        if node.op == "StitchStateOp":
            _hold(node, handles)
    read = {producer_of(t) for node in graph_def.node for t in node.input} | preserved
    kept = [node for node in graph_def.node if node.op != HELD_HANDLE or node.name in read]
    del graph_def.node[:]
    graph_def.node.extend(kept)


def _hold(region: NodeDef, handles: Mapping[str, NodeDef]) -> None:
    count, first = region.attr["N"].i, len(region.attr["Tin"].list.type)
    theirs = [handles.get(producer_of(t)) for t in region.input[first:first + count]]
    numbers = [node.attr[NUMBER].i for node in theirs if node is not None]
    if len(numbers) < count:  # others come as arguments, or out of branches
        return
    region.attr["held"].list.i.extend(numbers)
    region.attr["N"].i = 0
    del region.input[first:first + count]
