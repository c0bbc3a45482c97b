"""Graphs of a few nodes as one pattern."""

from __future__ import annotations

from tests.differential import patterns as p
from tests.differential.runner import region
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, users_of
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.pattern import Pattern, make_pattern


def whole(*outputs: Node) -> Pattern:
    """Everything as one pattern."""
    graph = region("g", list(outputs))
    nodes = graph.nodes()
    free = free_nodes(nodes)
    return make_pattern(plannable(graph, free), users_of(nodes), frozenset(live_out(graph)), free)


def x(*shape: int, dtype: DType = DType.F32) -> Node:
    return p.B.input(f"x{shape}:0", dtype, shape)
