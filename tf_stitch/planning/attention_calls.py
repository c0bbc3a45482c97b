"""Which attentions of a train step a library's fused kernels compute (transforms/attentions_to_calls.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.fused_attentions import FusedAttention
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.attention import COLUMNS, MOST_COLUMNS, TYPES, AttentionPass, call_us
from tf_stitch.planning.attention_choice import microseconds_now
from tf_stitch.planning.find_attention_gradients import find_trained
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.plain_attention import plain_attention
from tf_stitch.planning.stitch_plan import is_large_matmul, live_out

ARCHITECTURES = ("90",)
"""Of devices that a library's calls were timed on: an H200, and an H100, which has the same processors."""

MATMULS = 6
"""Of an attention and its gradients."""


def may_call(graph: TensorGraph, device: DeviceSpec) -> bool:
    """Whether there may be such attentions, to ask for a library only then."""
    if device.architecture not in ARCHITECTURES:
        return False
    return sum(n.kind is OpKind.DOT and n.type.rank > 2 and n.type.dtype in TYPES for n in graph.nodes()) >= MATMULS


def attentions_to_call(graph: TensorGraph, device: DeviceSpec, times: PatternTimes) -> list[FusedAttention]:
    """Attentions of a graph, with their gradients, that a library's two calls are known to compute in less time than
    what else is done with them, by measurements of the one and predictions of the other."""
    if not device.fused_attention:
        return []
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    found: dict[FusedAttention, set[Node]] = {}  # each with what its calls read, and all that is made of
    for trained in find_trained(nodes, users, wanted):
        if not all(map(is_large_matmul, trained.matmuls)):
            continue
        fused = plain_attention(trained)
        if fused is None or not _fits(fused) or \
                _called_us(fused) >= microseconds_now(graph, trained, users, wanted, times):
            continue
        above = _made_of(x.node for x in (fused.queries, fused.keys, fused.values, fused.grad))
        if not _needs_itself(fused, above, found):
            found[fused] = above
    return list(found)


def _needs_itself(fused: FusedAttention, above: set[Node], others: Mapping[FusedAttention, set[Node]]) -> bool:
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


def _gradients(fused: FusedAttention) -> set[Node]:
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
    read = fused.queries, fused.keys, fused.values, fused.grad
    dtypes = {one.node.type.dtype for one in (*read, fused.result, fused.query_grad, fused.key_grad, fused.value_grad)}
    q, k, v, grad = (one.dims for one in read)
    return len(dtypes) == 1 and dtypes <= TYPES.keys() and len(q) == 4 and k == v and q == grad \
        and (*q[:2], q[3]) == (*k[:2], k[3]) and q[3] % COLUMNS == 0 and q[3] <= MOST_COLUMNS \
        and (q[2] == k[2] or not fused.causal)


def _called_us(fused: FusedAttention) -> float:
    batch, heads, queries, columns = fused.queries.dims
    keys = fused.keys.dims[2]
    return sum(call_us(kind, batch * heads, queries, keys, columns, fused.causal) for kind in AttentionPass)
