"""Attentions, with their gradients where they are trained, become operations that a library's fused kernels compute,
without scores in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tf_stitch.ir.fused_attentions import FusedAttention, FusedTraining, Matrices
from tf_stitch.ir.graph import Node, TensorGraph, make_node, users_of, with_operands
from tf_stitch.ir.op_attrs import AttentionAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.planning.attention_calls import attentions_to_call

_ROWS_OUTSIDE = (0, 2, 1, 3)
"""Axes of [batch, heads, rows, columns] as [batch, rows, heads, columns]."""
Users = Mapping[Node, Sequence[Node]]


@dataclass(frozen=True)
class AttentionsToCalls:
    """Replaces them.

    Attributes:
        chosen: which, of a graph.
    """

    chosen: Callable[[TensorGraph], Sequence[FusedAttention]]
    name: str = "attentions_to_calls"

    @classmethod
    def where_faster(cls, context: PassContext) -> AttentionsToCalls:
        """Replaces the attentions that a library computes faster."""
        return cls(partial(attentions_to_call, device=context.device, times=context.times))

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        chosen = self.chosen(graph)
        if not chosen:
            return PassResult(graph, False)
        users = users_of(graph.nodes())
        forward = {one.result.node: one for one in chosen}
        trained = [one for one in chosen if isinstance(one, FusedTraining)]
        gradients = {end.node: (one, kind, end) for one in trained for kind, end in _gradients(one)}
        new: dict[Node, Node] = {}
        made: dict[FusedAttention, _Made] = {}
        for node in _in_order(graph, chosen):
            if node in forward:
                made[forward[node]] = attention = _made(forward[node], users, new)
                new[node] = attention.result
            elif node in gradients:
                one, kind, end = gradients[node]
                new[node] = _gradient(made[one], kind, end, one, users, new)
            else:
                new[node] = with_operands(node, tuple(new[o] for o in node.operands))
        outputs = [(key, new[n]) for key, n in graph.outputs]
        return PassResult(TensorGraph(graph.name, outputs, [new[n] for n in graph.unread]), True)


def _in_order(graph: TensorGraph, chosen: Sequence[FusedAttention]) -> Iterator[Node]:
    """All nodes that stay or are replaced, each after what it, or what takes its place, is made of: a gradient of
    values may have come before the values."""
    needs: dict[Node, Sequence[Node]] = {}
    for one in chosen:
        read = [x.node for x in (one.queries, one.keys, one.values)]
        needs[one.result.node] = read
        if isinstance(one, FusedTraining):
            needs |= {end.node: (*read, one.grad.node, one.result.node) for _, end in _gradients(one)}
    done: set[Node] = set()
    stack = [node for _, node in reversed(graph.outputs)] + list(graph.unread)
    while stack:
        before = [o for o in needs.get(stack[-1], stack[-1].operands) if o not in done]
        if before and stack[-1] not in done:
            stack.extend(reversed(before))
            continue
        node = stack.pop()
        if node not in done:
            done.add(node)
            yield node


@dataclass(frozen=True)
class _Made:
    """Of an attention.

    Attributes:
        operands: queries, keys, values.
        result: what the matmul gave.
        log_sum: of each query; None where nothing is trained.
    """

    operands: tuple[Node, ...]
    result: Node
    log_sum: Node | None


def _gradients(one: FusedTraining) -> tuple[tuple[OpKind, Matrices], ...]:
    return ((OpKind.ATTENTION_QUERY_GRAD, one.query_grad), (OpKind.ATTENTION_KEY_GRAD, one.key_grad),
            (OpKind.ATTENTION_VALUE_GRAD, one.value_grad))


def _made(one: FusedAttention, users: Users, new: dict[Node, Node]) -> _Made:
    operands = tuple(_matrices(x, new) for x in (one.queries, one.keys, one.values))
    attrs = AttentionAttrs(one.scale, one.causal, _rows_outside(one.result, users))
    node = make_node(OpKind.ATTENTION, operands, attrs, one.result.node.loc)
    log_sum = None
    if isinstance(one, FusedTraining):
        log_sum = make_node(OpKind.ATTENTION_LOG_SUM, operands[:2], replace(attrs, rows_outside=False), node.loc)
    return _Made(operands, _as_matmul(node, one.result), log_sum)


def _gradient(made: _Made, kind: OpKind, end: Matrices, one: FusedTraining, users: Users, new: dict[Node, Node]
              ) -> Node:
    assert made.log_sum is not None, "of what is trained"
    result = _exchanged(made.result) if one.result.exchanged else made.result
    operands = (*made.operands, result, _matrices(one.grad, new), made.log_sum)
    attrs = AttentionAttrs(one.scale, one.causal, _rows_outside(end, users))
    return _as_matmul(make_node(kind, operands, attrs, end.node.loc), end)


def _matrices(given: Matrices, new: dict[Node, Node]) -> Node:
    """As [batch, heads, rows, columns]."""
    return _exchanged(new[given.node]) if given.exchanged else new[given.node]


def _exchanged(node: Node) -> Node:
    return make_node(OpKind.TRANSPOSE, (node,), TransposeAttrs((0, 1, 3, 2)), node.loc)


def _rows_outside(matmul: Matrices, users: Users) -> bool:
    """Whether all who read a matmul want [batch, rows, heads, columns] of it."""
    wanted = (0, 3, 1, 2) if matmul.exchanged else _ROWS_OUTSIDE
    readers = users[matmul.node]
    return bool(readers) and all(isinstance(r.attrs, TransposeAttrs) and r.attrs.perm == wanted for r in readers)


def _as_matmul(node: Node, matmul: Matrices) -> Node:
    """What a matmul gave, of the operation in its place."""
    assert isinstance(node.attrs, AttentionAttrs)
    if node.attrs.rows_outside:
        node = make_node(OpKind.TRANSPOSE, (node,), TransposeAttrs(_ROWS_OUTSIDE), node.loc)
    return _exchanged(node) if matmul.exchanged else node
