"""The gradients of an attention: what they are made of, and what of it a kernel computes again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import contiguous_strides
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.strided_view import Strides
from tf_stitch.planning.attention import Operand
from tf_stitch.planning.unseen_elements import Unseen, unseen_elements

Users = Mapping[Node, Sequence[Node]]


@dataclass(frozen=True)
class Factor:
    """A matmul that elements between are made of, as [queries, keys].

    Attributes:
        queries, keys: its operands, as matrices with a row for each query or key.
        keys_first: its value is [keys, queries].
    """

    matmul: Node
    queries: Operand
    keys: Operand
    keys_first: bool


@dataclass(frozen=True)
class Sum:
    """A matmul that sums over queries, or over keys, what lies between, times rows of another matrix.

    Attributes:
        weights: what lies between, [queries, keys].
        rows: the other matrix, a row for each term.
        by_keys: its result has a row for each key; the terms are queries.
        exchanged: its result's last axis is rows.
    """

    matmul: Node
    weights: Node
    rows: Operand
    by_keys: bool
    exchanged: bool

    def stored(self, users: Users, wanted: Collection[Node]) -> Node | None:
        """What a kernel stores of it, the matmul's value or a transpose of that which its reader wants: rows have to
        lie as rows, at equal distances."""
        reader = users[self.matmul][0] if len(users[self.matmul]) == 1 and self.matmul not in wanted else None
        if reader is not None and reader.kind is OpKind.TRANSPOSE and self.strides(reader) is not None and (
                self.exchanged or any(user.kind is not OpKind.DOT for user in users[reader]) or not users[reader]):
            return reader
        return self.matmul if self.strides(self.matmul) is not None else None

    def strides(self, stored: Node) -> Strides | None:
        """Where the rows of the result lie in what is stored: [..., rows, columns]; None unless columns are
        neighbours."""
        strides = contiguous_strides(stored.type.dims)
        if isinstance(stored.attrs, TransposeAttrs):
            strides = [strides[stored.attrs.perm.index(axis)] for axis in range(len(strides))]
        if self.exchanged:
            strides[-2:] = strides[:-3:-1]
        return Strides(0, tuple(strides)) if strides[-1] == 1 else None


@dataclass(frozen=True)
class AttentionGradient:
    """One kernel of an attention's gradient.

    Attributes:
        nodes: all of it, operands first.
        scores, weights: the two matmuls that elements are made of, q k^T and dO v^T.
        score_sum: the gradient of queries, or that of keys.
        weight_sum: the gradient of values, where blocks have keys.
        row_sum: the sum over keys that elements of `score_sum` need, where blocks have queries.
        results: what is stored of score_sum, weight_sum.
    """

    nodes: tuple[Node, ...]
    scores: Factor
    weights: Factor
    score_sum: Sum
    weight_sum: Sum | None
    row_sum: Node | None
    results: tuple[Node, ...]

    @property
    def sums(self) -> tuple[Sum, ...]:
        return (self.score_sum,) if self.weight_sum is None else (self.score_sum, self.weight_sum)

    @property
    def by_keys(self) -> bool:
        """Blocks have keys, not queries."""
        return self.score_sum.by_keys

    @cached_property
    def unseen(self) -> Unseen | None:
        """Elements that a mask makes 0, if its scores are far enough below the others."""
        wanted = [end.weights for end in self.sums]
        if self.row_sum is not None:
            wanted.append(self.row_sum.operands[0])
        return unseen_elements([n for n in self.nodes if n not in self.results], wanted)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Rows of the block's own, with the scores' depth and the values' width; then those of the others."""
        both = self.scores, self.weights
        queries, keys = tuple(f.queries for f in both), tuple(f.keys for f in both)
        return (*keys, *queries) if self.by_keys else (*queries, *keys)


@dataclass(frozen=True)
class TrainedAttention:
    """An attention and its gradient, as graphs have them: everything made once, the scores in memory.

    Attributes:
        matmuls: all six.
        forward: what is made of scores alone, reductions too, operands first; without matmuls.
        backward: what is made of the gradient of weights, too.
        scores, weights: the matmuls of the scores and of the gradient of what weighs values.
        result, query, key, value: what weights and gradients of scores are multiplied by rows for.
        for_queries, for_keys: what the kernels of the gradient have to have copies of; users of those copies, besides.
    """

    matmuls: tuple[Node, ...]
    forward: tuple[Node, ...]
    backward: tuple[Node, ...]
    scores: Factor
    weights: Factor
    result: Sum
    query: Sum
    key: Sum
    value: Sum
    for_queries: tuple[Node, ...]
    of_queries: tuple[Node, ...]
    for_keys: tuple[Node, ...]
    of_keys: tuple[Node, ...]
