"""Which attentions a library's fused kernels compute, with their gradients where they are trained
(passes/attentions_to_calls.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.fused_attentions import FusedAttention, FusedTraining
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.attention import COLUMNS, MOST_COLUMNS, TYPES, AttentionPass, call_us, layout_of
from tf_stitch.planning.attention import Attention, find_attentions, memory_of, reads_rows
from tf_stitch.planning.attention_choice import forward_apart, microseconds_now
from tf_stitch.planning.attention_operands import with_bare_operands
from tf_stitch.planning.find_attention_gradients import find_trained
from tf_stitch.planning.free_nodes import free_nodes, live_out
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.planning.plain_attention import plain_attention, plain_training

ARCHITECTURES = ("90",)
"""Of devices that a library's calls were timed on: an H200, and an H100, which has the same processors."""
MATMULS = 2
"""Of an attention."""
FEWEST_QUERIES = 17
"""Of a matrix, without gradients: who decodes has fewer, and kernels for these."""


def may_call(graph: TensorGraph, device: DeviceSpec) -> bool:
    """Whether there may be such attentions, to ask for a library only then."""
    if device.architecture not in ARCHITECTURES:
        return False
    nodes = graph.nodes()
    matmuls = sum(n.kind is OpKind.DOT and n.type.rank > 2 and n.type.dtype in TYPES for n in nodes)
    return matmuls >= MATMULS and any(n.kind is OpKind.EXP for n in nodes)


def attentions_to_call(graph: TensorGraph, device: DeviceSpec, times: PatternTimes) -> list[FusedAttention]:
    """Attentions of a graph that a library's call is known to compute in less time than what else is done with them,
    and those that are trained whose two calls are, by measurements of the one and predictions of the other."""
    if not device.fused_attention:
        return []
    return [*_trained(graph, times), *_untrained(graph, times)]


def _trained(graph: TensorGraph, times: PatternTimes) -> list[FusedTraining]:
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    may = [(trained, fused) for trained in find_trained(nodes, users, wanted)
           if all(map(is_large_matmul, trained.matmuls))
           and (fused := plain_training(trained)) is not None and _fits(fused)]
    now = microseconds_now(graph, [trained for trained, _ in may], users, wanted, times)
    found: dict[FusedTraining, set[Node]] = {}  # each with what its calls read, and all that is made of
    for (_, fused), us in zip(may, now, strict=True):
        if sum(_called_us(fused, kind, times) for kind in AttentionPass) >= us:
            continue
        above = _made_of(x.node for x in (fused.queries, fused.keys, fused.values, fused.grad))
        if not _needs_itself(fused, above, found):
            found[fused] = above
    return list(found)


def _untrained(graph: TensorGraph, times: PatternTimes) -> Iterator[FusedAttention]:
    """A call's result needs no more than the matmuls that it is in place of: it never waits for itself."""
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    attentions = [attention for attention in find_attentions(nodes, users, wanted)
                  if _is_alone(attention, users, wanted)]
    if not attentions:
        return
    bare, free = free_nodes(nodes), free_nodes(nodes, attentions, wanted)
    trusted = times.profile.choices
    for attention in attentions:
        matmuls = attention.first, attention.second
        fused = plain_attention(attention) if all(map(is_large_matmul, matmuls)) else None
        if fused is None or not _fits(fused) or fused.queries.dims[2] < FEWEST_QUERIES:
            continue
        fused = with_bare_operands(fused, users, wanted)
        if not _read_as_they_lie(fused, attention, free):
            continue
        apart = forward_apart(attention, users, wanted, bare, times)
        ours = times.exact(make_pattern(attention.nodes, users, wanted, free))
        now = apart if ours is None else min(apart, ours)
        if _called_us(fused, AttentionPass.FORWARD, times) + trusted.attention_call_us \
                < now * trusted.attention_call_part:
            yield fused


def _is_alone(attention: Attention, users: Mapping[Node, Iterable[Node]], wanted: Collection[Node]) -> bool:
    """Whether nothing but the result is used elsewhere, not even what is known of each query."""
    ends = attention.second, attention.result
    inside = {*attention.nodes}
    return all(node in ends or (node not in wanted and inside.issuperset(users[node])) for node in attention.nodes)


def _read_as_they_lie(fused: FusedAttention, attention: Attention, free: Collection[Node]) -> bool:
    """Whether a call reads the operands where our kernel does, or what they are made of, so that nothing more has to be
    brought together.

    Args:
        free: nodes that need no memory if our kernels compute the attentions.
    """
    for operand, read in zip(attention.operands, (fused.queries, fused.keys, fused.values), strict=True):
        if read.node is not operand.node:
            continue
        memory, path = memory_of(operand, free)
        strides = operand.strides(path, memory)
        if memory in free or not reads_rows(operand, path, memory) or strides is None or layout_of(strides) is None:
            return False
    return True


def _needs_itself(fused: FusedTraining, above: set[Node], others: Mapping[FusedTraining, set[Node]]) -> bool:
    """Whether a call would wait for its own results, perhaps through the call of another attention: it gives all of
    them at once, and reads more than each of them is made of.

    Args:
        above: what its calls read, and all that is made of; of others, too.
    """
    if fused.result.node in _made_of(x.node for x in (fused.queries, fused.keys, fused.values)):
        return True
    own = _gradients(fused)
    return not own.isdisjoint(above) or any(
        not own.isdisjoint(theirs) and not _gradients(other).isdisjoint(above) for other, theirs in others.items())


def _gradients(fused: FusedTraining) -> set[Node]:
    return {x.node for x in (fused.query_grad, fused.key_grad, fused.value_grad)}


def _made_of(nodes: Iterable[Node]) -> set[Node]:
    """These, and all that they are made of."""
    found, stack = set[Node](), [*nodes]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.operands
    return found


def _fits(fused: FusedAttention) -> bool:
    """Whether a call takes its sizes and types."""
    read = [fused.queries, fused.keys, fused.values]
    made = [fused.result]
    if isinstance(fused, FusedTraining):
        read.append(fused.grad)
        made += [fused.query_grad, fused.key_grad, fused.value_grad]
    dtypes = {one.node.type.dtype for one in chain(read, made)}
    q, k, v, *grads = (one.dims for one in read)
    return len(dtypes) == 1 and dtypes <= TYPES.keys() and len(q) == 4 and k == v and all(g == q for g in grads) \
        and (*q[:2], q[3]) == (*k[:2], k[3]) and q[3] % COLUMNS == 0 and q[3] <= MOST_COLUMNS \
        and (q[2] == k[2] or not fused.causal)


def _called_us(fused: FusedAttention, kind: AttentionPass, times: PatternTimes) -> float:
    batch, heads, queries, columns = fused.queries.dims
    return call_us(kind, batch * heads, queries, fused.keys.dims[2], columns, fused.causal,
                   times.profile.library_calls)
