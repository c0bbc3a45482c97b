"""Which attentions of a region become a kernel each. It is asked when a region is planned, and before that where their
matmuls could become sums (compiler/skinny_matmuls.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.planning.attention import Attention, find_attentions, views_of
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.stitch_plan import free_nodes, is_large_matmul, live_out, make_pattern


def matmuls_of_attentions(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """The matmuls of a region's attentions that become a kernel each."""
    nodes = graph.nodes()
    chosen = chosen_attentions(nodes, users_of(nodes), frozenset(live_out(graph)), times)
    return {matmul for attention in chosen for matmul in (attention.first, attention.second)}


def chosen_attentions(nodes: Sequence[Node], users: dict[Node, list[Node]], wanted: frozenset[Node],
                      times: PatternTimes) -> Iterator[Attention]:
    """Those that one kernel computes in less predicted time than two library calls and the kernel between them. What
    brings operands together for a library, which the kernel does not need, is not counted.

    Args:
        nodes: of the region, operands first.
        wanted: live-out values of the region.
    """
    free = free_nodes(nodes)
    for attention in find_attentions(nodes, users, wanted):
        matmuls = attention.first, attention.second
        if not all(map(is_large_matmul, matmuls)):
            continue
        softmax = [n for n in attention.nodes if n not in (*matmuls, attention.result)]
        parts = (make_pattern(part, users, wanted, free) for part in ([matmuls[0]], softmax, [matmuls[1]]))
        # A part without a time counts as free: the library's way is kept then.
        together = times.exact(make_pattern(attention.nodes, users, wanted, free | views_of(attention, users, free)))
        if together is not None and together < sum(times.exact(part) or 0.0 for part in parts):
            yield attention
