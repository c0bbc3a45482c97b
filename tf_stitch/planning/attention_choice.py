"""Which attentions of a region become a kernel each, and which gradients of them. It is asked when a region is planned,
and before that where their matmuls could become sums (passes/lower_gemv_to_reduction.py) and where gradients need
copies of what they compute again (passes/private_copies.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tf_stitch.ir.copies import Copies, with_copies
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.planning.attention import Attention, find_attentions
from tf_stitch.planning.attention_gradient import TrainedAttention
from tf_stitch.planning.find_attention_gradients import find_gradients, find_trained
from tf_stitch.planning.free_nodes import free_nodes, live_out
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.planning.pattern_kind import AttentionKernel


def matmuls_of_attentions(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """The matmuls of a region's attentions that become a kernel each."""
    nodes = graph.nodes()
    chosen = chosen_attentions(nodes, users_of(nodes), frozenset(live_out(graph)), times)
    return {node for attention in chosen for node in attention.nodes if is_large_matmul(node)}


def chosen_attentions(nodes: Sequence[Node], users: dict[Node, list[Node]], wanted: frozenset[Node],
                      times: PatternTimes) -> Iterator[AttentionKernel]:
    """Attentions that one kernel computes in less predicted time than two library calls and the kernel between them,
    and all gradients that have copies of their own (they were chosen before: see attention_copies). What brings
    operands together for a library, which the kernel does not need, is not counted.

    Args:
        nodes: of the region, operands first.
        wanted: live-out values of the region.
    """
    attentions, gradients = list(find_attentions(nodes, users, wanted)), list(find_gradients(nodes, users, wanted))
    if not attentions and not gradients:
        return
    bare, free = free_nodes(nodes), free_nodes(nodes, [*attentions, *gradients], wanted)
    for attention in attentions:
        if not all(map(is_large_matmul, (attention.first, attention.second))):
            continue
        together = times.exact(make_pattern(attention.nodes, users, wanted, free))
        longer = times.profile.choices.attention_times
        if together is not None and together * longer < forward_apart(attention, users, wanted, bare, times):
            yield attention
    for gradient in gradients:
        if times.exact(make_pattern(gradient.nodes, users, wanted, free)) is not None:
            yield gradient


def forward_apart(attention: Attention, users: dict[Node, list[Node]], wanted: frozenset[Node],
                  free: frozenset[Node], times: PatternTimes) -> float:
    """Microseconds of an attention as two library calls and a kernel between them. A part without a time counts as
    free: the library's way is kept then."""
    matmuls = attention.first, attention.second
    softmax = [n for n in attention.nodes if n not in (*matmuls, attention.result)]
    parts = (make_pattern(part, users, wanted, free) for part in ([matmuls[0]], softmax, [matmuls[1]]))
    return sum(times.exact(part) or 0.0 for part in parts)


def attention_copies(graph: TensorGraph, times: PatternTimes) -> list[Copies]:
    """The copies that gradients of a region's attentions need to be kernels that recompute scores, of those that are
    predicted to take less time so, forward pass included."""
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    attentions = [trained for trained in find_trained(nodes, users, wanted)
                  if all(map(is_large_matmul, trained.matmuls))]
    apart, anew = _both_times(graph, attentions, users, wanted, times)
    longer = times.profile.choices.training_times
    return [copies for trained, before, after in zip(attentions, apart, anew, strict=True)
            if after is not None and after * longer < before for copies in copies_for(trained)]


def microseconds_now(graph: TensorGraph, attentions: Sequence[TrainedAttention], users: dict[Node, list[Node]],
                     wanted: frozenset[Node], times: PatternTimes) -> list[float]:
    """What each attention and its gradients take by the better of both ways, with scores in memory and without.

    Args:
        users: of every node of the graph.
        wanted: live-out values of the graph.
    """
    apart, anew = _both_times(graph, attentions, users, wanted, times)
    return [before if after is None else min(before, after * times.profile.choices.training_times)
            for before, after in zip(apart, anew, strict=True)]


def _both_times(graph: TensorGraph, attentions: Sequence[TrainedAttention], users: dict[Node, list[Node]],
                wanted: frozenset[Node], times: PatternTimes) -> tuple[list[float], list[float | None]]:
    """Microseconds of each attention with scores in memory, and without."""
    if not attentions:
        return [], []
    free = free_nodes(graph.nodes())
    return ([_time_apart(trained, users, wanted, free, times) for trained in attentions],
            _times_with_copies(graph, attentions, times))


def _time_apart(trained: TrainedAttention, users: dict[Node, list[Node]], wanted: frozenset[Node],
                free: frozenset[Node], times: PatternTimes) -> float:
    """Microseconds of the library's calls and two kernels between them, with scores in memory."""
    parts = [*([matmul] for matmul in trained.matmuls), trained.forward, trained.backward]
    return sum(times.exact(make_pattern(part, users, wanted, free)) or 0.0 for part in parts)


def copies_for(trained: TrainedAttention) -> list[Copies]:
    """The copies that its gradients need to be a kernel for queries, and one for keys and values."""
    return [Copies(frozenset(trained.for_queries), frozenset(trained.of_queries)),
            Copies(frozenset(trained.for_keys), frozenset(trained.of_keys))]


def _times_with_copies(graph: TensorGraph, attentions: Sequence[TrainedAttention], times: PatternTimes
                       ) -> list[float | None]:
    """Microseconds of each attention and its gradients as kernels, or of the library's calls and a kernel between
    them in the forward pass where that is no kernel; None if gradients are none. One graph has the copies of all
    attentions: one graph for each would take time quadratic in the number of layers."""
    changed, new = with_copies(graph, [copies for trained in attentions for copies in copies_for(trained)])
    nodes = changed.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(changed))
    forward = {found.second: found for found in
               find_attentions([new[trained.result.matmul] for trained in attentions], users, wanted)}
    gradients = {found.score_sum.matmul: found for found in find_gradients(nodes, users, wanted)}
    free = free_nodes(nodes, [*forward.values(), *gradients.values()], wanted)

    def us(part: Sequence[Node]) -> float | None:
        return times.exact(make_pattern(part, users, wanted, free))

    def time_of(trained: TrainedAttention) -> float | None:
        ends = new[trained.query.matmul], new[trained.key.matmul]
        if not gradients.keys() >= {*ends}:
            return None
        result = forward.get(new[trained.result.matmul])
        kernels: list[AttentionKernel] = [gradients[end] for end in ends]
        kernels += [] if result is None else [result]
        parts = () if result is not None else ([trained.scores.matmul], trained.forward, [trained.result.matmul])
        known = [us(kernel.nodes) for kernel in kernels]
        apart = sum(us([new[node] for node in part]) or 0.0 for part in parts)
        return None if None in known else sum(filter(None, known)) + apart

    return [time_of(trained) for trained in attentions]
