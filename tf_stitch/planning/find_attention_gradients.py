"""Finds what training does with an attention: the gradients of queries, keys and values, which need its scores again.

Around the scores stand matmuls, and what lies between is made element by element of two of them, the scores' own
q k^T and the gradient of what weighs the values, dO v^T; rows of it are reduced (a softmax's maximum and sum, the
softmax's gradient's sum). Whoever knows the reduced rows can compute every element from the two matmuls again. So
attention is trained without scores in memory by kernels that compute them again: one, of some queries each, gives the
last of the sums and the gradient of queries; one, of some keys each, gives those of keys and values
(passes/private_copies.py makes the copies, planning/attention_choice.py decides).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import exchanges_last
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.attention import MOST_NODES, Operand, is_column
from tf_stitch.planning.attention_gradient import AttentionGradient, Factor, Sum, TrainedAttention, Users


def find_trained(nodes: Sequence[Node], users: Users, wanted: Collection[Node]) -> Iterator[TrainedAttention]:
    """Every attention of a train step whose scores nothing but itself and its gradients use.

    Args:
        nodes: of the region, operands first.
        users: of every node.
        wanted: nodes whose values are needed by themselves.
    """
    seen: set[Node] = set()
    for node in nodes:
        if node.kind is OpKind.DOT and node not in seen:
            around = _around(node, users, wanted)
            found = None if around is None else _trained(around)
            if found is not None and seen.isdisjoint(found.matmuls):
                seen.update(found.matmuls)
                yield found


def find_gradients(nodes: Sequence[Node], users: Users, wanted: Collection[Node]) -> Iterator[AttentionGradient]:
    """Every gradient that has copies of its own of what it needs; each once."""
    seen: set[Node] = set()
    for node in nodes:
        if node.kind is OpKind.DOT and node not in seen:
            found = gradient_to(node, users, wanted)
            if found is not None:
                seen.update(found.nodes)
                yield found


def gradient_to(matmul: Node, users: Users, wanted: Collection[Node]) -> AttentionGradient | None:
    """The kernel that gives this matmul, the gradient of queries or keys, if it is one."""
    around = _around(matmul, users, wanted)
    if around is None:
        return None
    own, others = around.end, [end for end in around.ends if end.matmul is not matmul]
    sums = [n for n in around.inside if n.category is Category.REDUCTION]
    weight_sum, row_sum = None, None
    if own.by_keys:
        if len(others) != 1 or sums or not others[0].by_keys or not _alike(others[0].rows, around.weights.queries):
            return None
        weight_sum = others[0]
    else:
        if others or len(sums) != 1 or sums[0].kind is not OpKind.SUM:
            return None
        row_sum = sums[0]
    ends = [own, weight_sum] if weight_sum is not None else [own]
    results = [end.stored(users, wanted) for end in ends]
    if any(result is None for result in results):
        return None
    stored = [result for result in results if result is not None]
    nodes = dict.fromkeys([*around.inside, *(end.matmul for end in ends), *stored])
    return AttentionGradient(tuple(nodes), around.scores, around.weights, own, weight_sum, row_sum, tuple(stored))


@dataclass(frozen=True)
class _Around:
    """What lies around a matmul of gradients.

    Attributes:
        inside: the factors and all that is made of them but for matmuls, operands first.
        end: the matmul; its other operand is an operand of the scores, too.
        ends: all matmuls of what is inside.
    """

    inside: tuple[Node, ...]
    scores: Factor
    weights: Factor
    end: Sum
    ends: tuple[Sum, ...]


def _around(matmul: Node, users: Users, wanted: Collection[Node]) -> _Around | None:
    if not matmul.type.is_static:
        return None
    for i, weights in enumerate(matmul.operands):
        factors = _factors_of(weights)
        if factors is None or len(factors) != 2:
            continue
        end = _sum_of(matmul, i)
        described = [_factor(factor, keys_first) for factor, keys_first in factors.items()]
        kept = [f for f in described if end is not None and _alike(f.queries if end.by_keys else f.keys, end.rows)]
        if end is None or not kept:
            continue
        scores = kept[0]
        other = next(f for f in described if f is not scores)
        inside = _inside(weights, set(factors), users, wanted)
        if inside is None or 1 in matmul.type.dims[-2:] or 1 in scores.matmul.type.dims[-2:]:
            continue
        ends = _sums_behind(inside, users)
        if ends is not None:
            return _Around(inside, scores, other, end, ends)
    return None


def _sums_behind(inside: Sequence[Node], users: Users) -> tuple[Sum, ...] | None:
    """The matmuls that read what is inside, as sums over keys or queries; None if one is none."""
    between = set(inside)
    uses = dict.fromkeys((user, j) for n in inside for user in users[n] if user.kind is OpKind.DOT
                         and user not in between for j, o in enumerate(user.operands) if o is n)
    ends = [_sum_of(user, j) for user, j in uses]
    found = tuple(e for e in ends if e is not None)
    return found if len(found) == len(ends) and all(_keys_last(e.weights) for e in found) else None


def _factors_of(node: Node) -> dict[Node, bool] | None:
    """The one or two matmuls that a value is made of element by element, and whether each has its last two axes
    exchanged; None if it is a matmul itself, or made of more."""
    if node.kind is OpKind.DOT or node.type.rank < 2:
        return None
    found: dict[Node, bool] = {}
    seen, stack = {(node, False)}, [(node, False)]
    while stack:
        one, exchanged = stack.pop()
        if one.kind is OpKind.DOT:
            if found.setdefault(one, exchanged) is not exchanged or len(found) > 2:
                return None
            continue
        swaps = exchanges_last(one)
        if one.category is not Category.ELEMENTWISE and not swaps:
            continue
        for operand in one.operands:
            step = operand, exchanged != swaps
            if operand.type.numel == one.type.numel and step not in seen:
                seen.add(step)
                stack.append(step)
        if len(seen) > MOST_NODES:
            return None
    return found


def _keys_last(weights: Node) -> bool:
    """Whether what is reduced of rows, [..., rows, 1], stands beside elements that are [..., rows, columns] in
    `weights`, too, and something is."""
    columns, seen, stack = 0, {(weights, False)}, [(weights, False)]
    while stack and len(seen) <= 2 * MOST_NODES:
        one, exchanged = stack.pop()
        swaps = exchanges_last(one)
        if one.kind is OpKind.DOT or (one.category is not Category.ELEMENTWISE and not swaps):
            continue
        for operand in one.operands:
            step = operand, exchanged != swaps
            if operand.type.dims == (*one.type.dims[:-1], 1):
                columns += 1
                if step[1]:
                    return False
            elif operand.type.numel == one.type.numel and step not in seen:
                seen.add(step)
                stack.append(step)
    return columns > 0


def _reduces_rows(node: Node) -> bool:
    return isinstance(node.attrs, ReduceAttrs) and node.attrs.axes == (node.operands[0].type.rank - 1,)


def _is_of_rows(node: Node) -> bool:
    """Whether a value, [..., rows] or [..., rows, 1], is known of whole rows."""
    return _reduces_rows(node) or is_column(node)


def _factor(matmul: Node, keys_first: bool) -> Factor:
    assert isinstance(matmul.attrs, DotAttrs)
    a, b = matmul.operands
    rows, columns = Operand(a, matmul.attrs.transpose_a), Operand(b, not matmul.attrs.transpose_b)
    return Factor(matmul, *((columns, rows) if keys_first else (rows, columns)), keys_first)


def _sum_of(matmul: Node, i: int) -> Sum | None:
    """A matmul whose operand `i` is [queries, keys] as it stands."""
    attrs = matmul.attrs
    assert isinstance(attrs, DotAttrs)
    weights, other = matmul.operands[i], matmul.operands[1 - i]
    if weights is other:
        return None
    if i == 0:
        return Sum(matmul, weights, Operand(other, attrs.transpose_b), attrs.transpose_a, False)
    return Sum(matmul, weights, Operand(other, not attrs.transpose_a), not attrs.transpose_b, True)


def _alike(one: Operand, other: Operand) -> bool:
    return one.node is other.node and one.exchanged is other.exchanged


def _inside(weights: Node, factors: Collection[Node], users: Users, wanted: Collection[Node]
            ) -> tuple[Node, ...] | None:
    """The factors, and what is made of them up to `weights` and to other matmuls, operands first; None if anything but
    those and what is known of whole rows is used elsewhere."""
    made: dict[Node, bool] = {}  # of factors, but for what is a matmul

    def is_made(node: Node) -> bool:
        if node in factors:
            made[node] = True
        if node in made:
            return made[node]
        made[node] = False  # while its operands are asked
        if len(made) > 8 * MOST_NODES:
            return False
        if _reduces_rows(node):
            known = _factors_of(node.operands[0])
            made[node] = bool(known) and set(known or ()) <= set(factors) and is_made(node.operands[0])
        elif _is_between(node):
            parts = [is_made(operand) for operand in node.operands]  # all of them are asked
            made[node] = True in parts
        return made[node]

    if not is_made(weights):
        return None
    inside = {node: None for node, of_factors in made.items() if of_factors}
    fresh = list(inside)
    while fresh:
        node = fresh.pop()
        if _is_of_rows(node):
            continue
        if node in wanted or not users[node] or len(inside) > 2 * MOST_NODES:
            return None
        for user in users[node]:
            if user in inside or user.kind is OpKind.DOT:
                continue
            if not _is_between(user) and not _reduces_rows(user):
                return None
            inside[user] = None
            fresh.append(user)
    return _ordered(inside)


def _is_between(node: Node) -> bool:
    return node.category is Category.ELEMENTWISE or node.kind in (OpKind.RESHAPE, OpKind.BROADCAST) \
        or exchanges_last(node)


def _ordered(nodes: Collection[Node]) -> tuple[Node, ...]:
    order: dict[Node, None] = {}

    def visit(node: Node) -> None:
        for operand in node.operands:
            if operand in nodes and operand not in order:
                visit(operand)
        order[node] = None

    for node in nodes:
        if node not in order:
            visit(node)
    return tuple(order)


def _trained(around: _Around) -> TrainedAttention | None:
    scores, weights, inside = around.scores.matmul, around.weights.matmul, around.inside
    later = _made_of(weights, inside)
    backward = tuple(n for n in inside if n in later and n is not weights)
    forward = tuple(n for n in inside if n not in later and n is not scores and n is not weights)
    ends = _ends(around, later)
    row_sum = _only_row_sum(backward)
    if ends is None or row_sum is None or not any(n.kind is OpKind.EXP for n in forward):
        return None
    again = _down_to_rows((ends.query.weights, row_sum.operands[0]), inside)
    for_queries = tuple(n for n in inside if n in again and n not in later)
    again = _down_to_rows((ends.key.weights, ends.value.weights), inside)
    for_keys = tuple(n for n in inside if n in again)
    query, key, value, result = ends
    return TrainedAttention((scores, result.matmul, value.matmul, weights, query.matmul, key.matmul), forward, backward,
                            around.scores, around.weights, result, query, key, value, for_queries,
                            tuple(n for n in inside if n in later), for_keys, (key.matmul, value.matmul))


class _Ends(NamedTuple):
    """The gradients of queries, keys and values, and the attention's result."""

    query: Sum
    key: Sum
    value: Sum
    result: Sum


def _ends(around: _Around, later: Collection[Node]) -> _Ends | None:
    """What the matmuls behind an attention give; None if they are not these four, of one attention.

    Args:
        later: what is made of the gradient of the weights.
    """
    found: dict[tuple[bool, bool], list[Sum]] = {}
    for end in around.ends:
        found.setdefault((end.weights in later, end.by_keys), []).append(end)
    if len(found) != 4 or any(len(same) != 1 for same in found.values()):
        return None
    ends = _Ends(*(found[kind][0] for kind in ((True, False), (True, True), (False, True), (False, False))))
    of_one_weight = ends.query.weights is ends.key.weights and ends.value.weights is ends.result.weights
    rows = ((ends.query, around.scores.keys), (ends.key, around.scores.queries), (ends.value, around.weights.queries),
            (ends.result, around.weights.keys))
    return ends if of_one_weight and all(_alike(end.rows, other) for end, other in rows) else None


def _only_row_sum(nodes: Sequence[Node]) -> Node | None:
    """The only reduction of these, if it is a sum."""
    reductions = [n for n in nodes if n.category is Category.REDUCTION]
    return reductions[0] if len(reductions) == 1 and reductions[0].kind is OpKind.SUM else None


def _made_of(start: Node, inside: Sequence[Node]) -> set[Node]:
    """`start` and what is made of it; `inside`: operands first."""
    found = {start}
    for node in inside:
        if any(operand in found for operand in node.operands):
            found.add(node)
    return found


def _down_to_rows(nodes: Sequence[Node], inside: Collection[Node]) -> set[Node]:
    """Nodes and all inside that they are made of, but for what is known of whole rows and what only that is made of."""
    found, stack, between = set[Node](), list(nodes), set(inside)
    while stack:
        node = stack.pop()
        if node in between and node not in found and not _is_of_rows(node):
            found.add(node)
            stack += node.operands
    return found
