"""Finds attention: a product, what is done to its elements, a softmax over its columns, and the product with that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.sizes import Size

HALVES = (DType.F16, DType.BF16)


@dataclass(frozen=True)
class Attention:
    """softmax(scores) v, where scores are made of the elements of q k^T one by one.

    Attributes:
        nodes: all of it, operands first; the last is the result, of which only its own order of axes may differ from
            that of the second product.
        first, second: the products.
        queries, keys, values: their operands [..., rows, columns].
        scores: what softmax is taken of.
    """

    nodes: tuple[Node, ...]
    first: Node
    second: Node
    queries: Node
    keys: Node
    values: Node
    scores: Node

    @property
    def result(self) -> Node:
        return self.nodes[-1]


def find_attentions(nodes: Sequence[Node], users: Mapping[Node, Sequence[Node]], wanted: Collection[Node]
                    ) -> Iterator[Attention]:
    """Every attention of which nothing but the result is used elsewhere.

    Args:
        nodes: of the region, operands first.
        users: of every node.
        wanted: nodes whose values are needed by themselves.
    """
    for node in nodes:
        if isinstance(node.attrs, DotAttrs):
            found = attention_to(node, users, wanted)
            if found is not None:
                yield found


def attention_to(second: Node, users: Mapping[Node, Sequence[Node]], wanted: Collection[Node]) -> Attention | None:
    """The attention whose second product this is, if it is one."""
    attrs = second.attrs
    if not isinstance(attrs, DotAttrs) or attrs.transpose_a or attrs.transpose_b or second.type.rank < 2 \
            or any(isinstance(d, Size) for d in second.type.dims):
        return None
    weights, values = second.operands
    scores = _softmax_of(weights)
    first = None if scores is None else _product_in(scores, users)
    if scores is None or first is None:
        return None
    queries, keys = _rows(first, scores)
    if queries is None or keys is None or first.type.dtype is not second.type.dtype:
        return None
    result = second
    if second not in wanted and len(users[second]) == 1 and _keeps_columns(users[second][0]):
        result = users[second][0]
    inside = _between(first, result)
    if any(node in wanted or any(user not in inside for user in users[node]) for node in inside if node is not result):
        return None
    return Attention(tuple(inside), first, second, queries, keys, values, scores)


def _softmax_of(weights: Node) -> Node | None:
    """x, if this is exp(x - max(x)) / sum(exp(x - max(x))) over the last axis."""
    weights = _uncast(weights)
    if weights.kind is OpKind.DIV:
        exponential, total = weights.operands
    elif weights.kind is OpKind.MUL and any(o.kind is OpKind.RECIPROCAL for o in weights.operands):
        exponential, total = sorted(weights.operands, key=lambda o: o.kind is OpKind.RECIPROCAL)
        total = total.operands[0]
    else:
        return None
    if exponential.kind is not OpKind.EXP or _row_value(total, OpKind.SUM) is not exponential:
        return None
    difference = exponential.operands[0]
    if difference.kind is not OpKind.SUB or difference.type.rank < 2:
        return None
    scores, most = difference.operands
    return scores if _row_value(most, OpKind.MAX) is scores else None


def _row_value(node: Node, kind: OpKind) -> Node | None:
    """What a column [..., rows, 1] is the reduction over the last axis of."""
    if node.kind is not OpKind.RESHAPE or node.type.dims[-1] != 1:
        return None
    reduction = node.operands[0]
    reduced = reduction.operands[0] if reduction.kind is kind else None
    if reduced is None or not isinstance(reduction.attrs, ReduceAttrs):
        return None
    is_rows = reduction.attrs.axes == (reduced.type.rank - 1,) and node.type.dims == (*reduction.type.dims, 1)
    return reduced if is_rows else None


def _product_in(scores: Node, users: Mapping[Node, Sequence[Node]]) -> Node | None:
    """The product that scores are made of element by element."""
    if scores.kind is OpKind.DOT:
        return scores
    if scores.category is not Category.ELEMENTWISE and not _exchanges_rows(scores):
        return None
    for operand in scores.operands:
        whole = operand.type.numel == scores.type.numel and operand.type.dtype.is_float
        if whole and all(user is scores for user in users[operand]):
            found = _product_in(operand, users)
            if found is not None:
                return found
    return None


def _rows(product: Node, scores: Node) -> tuple[Node | None, Node | None]:
    """Queries and keys as [..., rows, columns]; None where an operand lies as columns."""
    attrs = product.attrs
    assert isinstance(attrs, DotAttrs)
    left, right = product.operands
    queries, keys = _as_rows(left, attrs.transpose_a), _as_rows(right, not attrs.transpose_b)
    return (keys, queries) if _is_exchanged(scores, product) else (queries, keys)


def _as_rows(operand: Node, exchanged: bool) -> Node | None:
    return None if exchanged else operand


def _is_exchanged(scores: Node, product: Node) -> bool:
    return False


def _exchanges_rows(node: Node) -> bool:
    return False


def _keeps_columns(node: Node) -> bool:
    return isinstance(node.attrs, TransposeAttrs) and node.attrs.perm[-1] == node.type.rank - 1


def _uncast(node: Node) -> Node:
    return node.operands[0] if node.kind is OpKind.CAST and node.operands[0].type.dtype.is_float else node


def _between(first: Node, last: Node) -> dict[Node, None]:
    """Nodes on paths from one to the other, operands first."""
    leads: dict[Node, bool] = {first: True}
    inside: dict[Node, None] = {first: None}

    def visit(node: Node) -> bool:
        if node not in leads:
            leads[node] = any([visit(operand) for operand in node.operands])
            if leads[node]:
                inside[node] = None
        return leads[node]

    visit(last)
    return inside
