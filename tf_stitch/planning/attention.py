"""Finds attention: a matmul, what is done to its elements, a softmax over its rows, and the matmul with that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tf_stitch.ir.causal_masks import CausalMask, causal_mask_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import exchanges_last, terms_of
from tf_stitch.ir.op_attrs import ConstantAttrs, DotAttrs, ReduceAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.strided_view import VIEWS, Strides, view_strides
from tf_stitch.ir.symbolic_dims import SymbolicDim

MOST_NODES = 40
"""Of an attention; what a matmul leads to is not looked at any further."""


MOST_STEPS = 8
"""From a softmax to what weighs values."""


@dataclass(frozen=True)
class Operand:
    """Matrices [..., rows, columns]: a node, `exchanged`: with its last two axes exchanged."""

    node: Node
    exchanged: bool

    @property
    def dims(self) -> tuple[int, ...]:
        """Static: [..., rows, columns]."""
        dims = self.node.type.dims
        return (*dims[:-2], *dims[:-3:-1]) if self.exchanged else dims

    def strides(self, path: Sequence[Node], memory: Node) -> Strides | None:
        """See view_strides; `path` leads from `memory` to the node."""
        found = view_strides(path, memory)
        if found is None or not self.exchanged:
            return found
        *outer, columns, rows = found.axes
        return Strides(found.offset, (*outer, rows, columns))


@dataclass(frozen=True)
class Attention:
    """weights v, where weights are made of softmax(scores), and scores of the elements of q k^T, one by one.

    Attributes:
        nodes: all of it, operands first.
        first, second: the matmuls.
        scores: what softmax is taken of.
        probabilities: the softmax.
        weights: what is made of probabilities one by one, so that a multiple of one gives that multiple.
        result: the second matmul, or its transpose, which leaves columns where they are.
        q, k, v: queries, keys, values.
        keys_first: the first matmul is k q^T.
        most, total: of each query the largest score, and the sum of exponentials relative to that. Others may read
            them, and what is made of them for a query.
    """

    nodes: tuple[Node, ...]
    first: Node
    second: Node
    scores: Node
    probabilities: Node
    weights: Node
    result: Node
    q: Operand
    k: Operand
    v: Operand
    keys_first: bool
    most: Node
    total: Node

    @property
    def depth(self) -> int:
        """Columns of queries and keys."""
        return terms_of(self.first)

    @property
    def operands(self) -> tuple[Operand, Operand, Operand]:
        return self.q, self.k, self.v

    @property
    def causal(self) -> CausalMask | None:
        """The scores that are known, if any."""
        return causal_mask_of(self.scores)

    @property
    def results(self) -> tuple[Node, ...]:
        return (self.result,)


def find_attentions(nodes: Sequence[Node], users: Mapping[Node, Sequence[Node]], wanted: Collection[Node]
                    ) -> Iterator[Attention]:
    """Every attention of which nothing but the result and what is known of each query is used elsewhere.

    Args:
        nodes: of the region, operands first.
        users: of every node.
        wanted: nodes whose values are needed by themselves.
    """
    for node in nodes:
        if node.kind is OpKind.DOT:
            found = attention_to(node, users, wanted)
            if found is not None:
                yield found


def attention_to(second: Node, users: Mapping[Node, Sequence[Node]], wanted: Collection[Node]) -> Attention | None:
    """The attention whose second matmul this is, if it is one. Static sizes only."""
    attrs = second.attrs
    if not isinstance(attrs, DotAttrs) or attrs.transpose_a:
        return None
    softmax = _softmax_below(second.operands[0])
    found = None if softmax is None else _matmul_in(softmax.scores, users, exchanged=False)
    if softmax is None or found is None:
        return None
    first, keys_first = found
    assert isinstance(first.attrs, DotAttrs)
    q, k = Operand(first.operands[0], first.attrs.transpose_a), Operand(first.operands[1], not first.attrs.transpose_b)
    if keys_first:
        q, k = k, q
    result = second
    if second not in wanted and len(users[second]) == 1 and _is_stored_so(users[second][0], users):
        result = users[second][0]
    inside = _closed(first, result, softmax, users, wanted)
    if inside is None or second.operands[1] in inside or first.type.dtype is not second.type.dtype or \
            any(isinstance(d, SymbolicDim) for n in (first, second, q.node) for d in n.type.dims):
        return None
    v = Operand(second.operands[1], attrs.transpose_b)
    return Attention(tuple(inside), first, second, softmax.scores, softmax.nodes[-1], second.operands[0], result, q, k,
                     v, keys_first, softmax.most, softmax.total)


def views_of(operands: Iterable[Operand], inside: Collection[Node], users: Mapping[Node, Sequence[Node]],
             free: Collection[Node]) -> set[Node]:
    """Views that need no memory of their own, since kernels of attention alone read them and can read them as they lie
    in what they are views of.

    Args:
        operands: of all those kernels.
        inside: nodes of all of them.
        free: nodes that need none in any case.
    """
    found = set[Node]()
    for operand in operands:
        path: list[Node] = []
        best = 0
        node = operand.node
        while node.kind in VIEWS and all(user in inside or user in free or user in path for user in users[node]):
            path.append(node)
            node = node.operands[0]
            if reads_rows(operand, path[::-1], node):
                best = len(path)
        found.update(path[:best])
    return found


def reads_rows(operand: Operand, path: Sequence[Node], memory: Node) -> bool:
    """Whether the kernel can read an operand that is a view of `memory`: 16 bytes at a time, along rows."""
    strides = operand.strides(path, memory)
    if strides is None:
        return False
    *others, column = strides.axes
    aligned = all(n * memory.type.dtype.size % 16 == 0 for n in (strides.offset, *others))
    return aligned and column == 1 and _evenly(operand.node.type.dims[:-3], others[:-2]) is not None


def memory_of(operand: Operand, free: Collection[Node]) -> tuple[Node, list[Node]]:
    """What lies in memory of an operand, and the views that lead from there to it."""
    path: list[Node] = []
    node = operand.node
    while node in free and node.kind in VIEWS:
        path.append(node)
        node = node.operands[0]
    return node, path[::-1]


def even_stride(dims: Sequence[int], strides: Sequence[int]) -> int:
    """Elements between neighbours of axes that are counted as one."""
    stride = _evenly(dims, strides)
    assert stride is not None, "what does not lie evenly is no operand"
    return stride


def _evenly(dims: Sequence[int], strides: Sequence[int]) -> int | None:
    found, count = 0, 1
    for dim, stride in reversed(list(zip(dims, strides, strict=True))):
        if dim == 1:
            continue
        if count == 1:
            found = stride
        elif stride != found * count:
            return None
        count *= dim
    return found


@dataclass(frozen=True)
class _Softmax:
    """exp(x - max(x)) / sum(exp(x - max(x))) of the scores x over the last axis.

    Attributes:
        most, total: the maximum and the sum.
        nodes: the way from there to the weights.
    """

    scores: Node
    most: Node
    total: Node
    nodes: tuple[Node, ...]


def _softmax_below(weights: Node) -> _Softmax | None:
    """The softmax that weights are made of: rounded, scaled, or some of them made zero."""
    for _ in range(MOST_STEPS):
        found = _softmax_of(weights)
        scaled = _scaled(weights)
        if found is not None or scaled is None:
            return found
        weights = scaled
    return None


def _scaled(weights: Node) -> Node | None:
    """What weights are a multiple of, each another one; None if that is not plain."""
    if weights.kind is OpKind.CAST and weights.operands[0].type.dtype.is_float:
        return weights.operands[0]
    if weights.kind is OpKind.SELECT:
        rest = [o for o in weights.operands[1:] if not _is_zero(o)]
    elif weights.kind is OpKind.MUL:
        rest = [o for o in weights.operands if o.type.numel == weights.type.numel and _has_softmax(o)]
    else:
        return None
    return rest[0] if len(rest) == 1 and rest[0].type.shape == weights.type.shape else None


def _has_softmax(node: Node) -> bool:
    return _softmax_below(node) is not None


def _is_zero(node: Node) -> bool:
    while node.kind in (OpKind.BROADCAST, OpKind.RESHAPE):
        node = node.operands[0]
    return isinstance(node.attrs, ConstantAttrs) and node.type.numel == 1 and not node.attrs.value.item()


def _softmax_of(weights: Node) -> _Softmax | None:
    if weights.kind is OpKind.DIV:
        exponential, last = weights.operands
        total = last
    elif weights.kind is OpKind.MUL and any(o.kind is OpKind.RECIPROCAL for o in weights.operands):
        exponential, last = sorted(weights.operands, key=lambda o: o.kind is OpKind.RECIPROCAL)
        total = last.operands[0]
    else:
        return None
    if exponential.kind is not OpKind.EXP or _reduced(total, OpKind.SUM) is not exponential:
        return None
    difference = exponential.operands[0]
    if difference.kind is not OpKind.SUB:
        return None
    scores, most = difference.operands
    if _reduced(most, OpKind.MAX) is not scores:
        return None
    return _Softmax(scores, most.operands[0], total.operands[0], (most, difference, exponential, total, last, weights))


def is_column(node: Node) -> bool:
    """Whether a value is [..., rows, 1]."""
    return node.type.rank > 1 and bool(node.type.dims[-1] == 1)


def _reduced(column: Node, kind: OpKind) -> Node | None:
    """What a column [..., rows, 1] is the reduction over the last axis of."""
    if column.kind is not OpKind.RESHAPE or column.operands[0].kind is not kind:
        return None
    reduction = column.operands[0]
    whole = reduction.operands[0]
    assert isinstance(reduction.attrs, ReduceAttrs)
    is_column = reduction.attrs.axes == (whole.type.rank - 1,) and column.type.shape == (*whole.type.shape[:-1], 1)
    return whole if is_column else None


def _matmul_in(scores: Node, users: Mapping[Node, Sequence[Node]], exchanged: bool) -> tuple[Node, bool] | None:
    """The matmul that scores are made of element by element, and whether its last two axes are exchanged there."""
    if scores.kind is OpKind.DOT:
        return scores, exchanged
    swaps = exchanges_last(scores)
    if scores.category is not Category.ELEMENTWISE and not swaps:
        return None
    for operand in scores.operands:
        whole = operand.type.dtype.is_float and operand.type.numel == scores.type.numel
        if whole and all(user is scores for user in users[operand]):
            found = _matmul_in(operand, users, exchanged != swaps)
            if found is not None:
                return found
    return None


def _is_stored_so(node: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether a user of matrices [..., rows, columns] is what the kernel may as well store: their transpose that leaves
    them at equal distances, and that somebody else than matmuls reads, which could read it as it lies."""
    moved = isinstance(node.attrs, TransposeAttrs) and node.attrs.perm in ((1, 0, 2), (0, 2, 1, 3))
    return moved and (not users[node] or any(user.kind is not OpKind.DOT for user in users[node]))


def _closed(first: Node, last: Node, softmax: _Softmax, users: Mapping[Node, Sequence[Node]], wanted: Collection[Node]
            ) -> list[Node] | None:
    """Nodes that use `first`, however indirectly, up to `last`, operands first; None if anything else is made of
    them, but for what is known of each query."""
    inside, fresh = {first}, [first]
    while fresh:
        node = fresh.pop()
        if node is last:
            continue
        if node in (softmax.most, softmax.total) or (node in softmax.nodes and is_column(node)):
            new = (set(users[node]) & set(softmax.nodes)) - inside
        elif node in wanted or not users[node] or len(inside) > MOST_NODES:
            return None
        else:
            new = set(users[node]) - inside
        inside |= new
        fresh += new
    if last not in inside:
        return None
    order: dict[Node, None] = {}
    _put_in_order(last, inside, order)
    return list(order)


def _put_in_order(node: Node, inside: Collection[Node], order: dict[Node, None]) -> None:
    for operand in node.operands:
        if operand in inside and operand not in order:
            _put_in_order(operand, inside, order)
    order[node] = None
