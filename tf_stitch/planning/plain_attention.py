"""Attentions that are softmax(scale q k^T) v, with the causal mask or none, and their gradients, and nothing else: what
a library's fused kernels compute, also without gradients.

What lies between the matmuls is read operation by operation; casts between floats are taken for what they cast, since
a fused kernel computes in float32 what lies between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from math import isclose

from tf_stitch.ir.causal_masks import constant_of, is_triangle
from tf_stitch.ir.fused_attentions import FusedAttention, FusedTraining, Matrices
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import exchanges_last
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.attention import Attention, Operand
from tf_stitch.planning.attention_gradient import TrainedAttention

HIDDEN = -9e8
"""Masked scores are at most this much, as -1e9 of bfloat16 is: exponentials of what is seen are so far above theirs
that those are 0, unless all that a query sees is as low itself, which a fused kernel takes for seen nevertheless."""


class _What(Enum):
    SCORE = auto()
    MOST = auto()  # of a query
    BELOW = auto()  # a score minus the most
    EXPONENTIAL = auto()
    TOTAL = auto()
    RECIPROCAL = auto()  # of the total
    PROBABILITY = auto()
    GIVEN = auto()  # the gradient of a probability
    WEIGHTED = auto()  # that times the probability
    SUM = auto()
    CENTRED = auto()  # that gradient minus the sum
    GRADIENT = auto()  # of a score


@dataclass(frozen=True)
class _Meaning:
    """What a value is.

    Attributes:
        scale: that scores, of which it is made, were multiplied by.
        factor: that probabilities and gradients were multiplied by.
        masked: scores were made of masked ones.
        zeroed: elements that the causal mask hides were made 0.
        exchanged: it is [keys, queries].
    """

    what: _What
    scale: float = 1.0
    factor: float = 1.0
    masked: bool = False
    zeroed: bool = False
    exchanged: bool = False


def plain_attention(attention: Attention) -> FusedAttention | None:
    """What an attention is, if it is that plain."""
    reader = _Reader({attention.first: _Meaning(_What.SCORE, exchanged=attention.keys_first)}, attention.nodes)
    weights = reader.meaning(attention.weights)
    if weights is None or not _weighs_values(weights):
        return None
    q, k, v = map(_matrices, attention.operands)
    return FusedAttention(weights.scale, weights.masked, q, k, v, Matrices(attention.second, False))


def plain_training(trained: TrainedAttention) -> FusedTraining | None:
    """What an attention and its gradients are, if they are that plain."""
    reader = _Reader({trained.scores.matmul: _Meaning(_What.SCORE, exchanged=trained.scores.keys_first),
                      trained.weights.matmul: _Meaning(_What.GIVEN, exchanged=trained.weights.keys_first)},
                     (*trained.forward, *trained.backward))
    weights, gradient = reader.meaning(trained.result.weights), reader.meaning(trained.query.weights)
    if weights is None or gradient is None or not _weighs_values(weights) \
            or gradient.what is not _What.GRADIENT or gradient.exchanged:
        return None
    same = isclose(gradient.scale, weights.scale) \
        and isclose(gradient.factor, weights.scale) and gradient.masked is weights.masked
    if not same or (gradient.zeroed and not weights.masked):
        return None
    operands = trained.scores.queries, trained.scores.keys, trained.weights.keys, trained.weights.queries
    q, k, v, grad = map(_matrices, operands)
    ends = trained.result, trained.query, trained.key, trained.value
    result, *grads = (Matrices(end.matmul, end.exchanged) for end in ends)
    return FusedTraining(weights.scale, weights.masked, q, k, v, result, grad, *grads)


def _matrices(operand: Operand) -> Matrices:
    return Matrices(operand.node, operand.exchanged)


def _weighs_values(weights: _Meaning) -> bool:
    """Whether they are probabilities as they are; zeros are the mask's."""
    return weights.what is _What.PROBABILITY and weights.factor == 1.0 and not weights.exchanged \
        and (weights.masked or not weights.zeroed)


_Pair = tuple[_What, _What]
_MULTIPLIED: dict[_Pair, _What] = {
    (_What.EXPONENTIAL, _What.RECIPROCAL): _What.PROBABILITY,
    (_What.PROBABILITY, _What.GIVEN): _What.WEIGHTED,
    (_What.PROBABILITY, _What.CENTRED): _What.GRADIENT,
}
_DIFFERENCES: dict[_Pair, _What] = {(_What.SCORE, _What.MOST): _What.BELOW, (_What.GIVEN, _What.SUM): _What.CENTRED}
_SUMS = {_What.EXPONENTIAL: _What.TOTAL, _What.WEIGHTED: _What.SUM}
_ZERO_WHERE_MASKED = (_What.PROBABILITY, _What.WEIGHTED, _What.GRADIENT, _What.GIVEN)
"""What may be made 0 there: it is, or all that it is multiplied by is."""
_HAVE_FACTORS = (_What.PROBABILITY, _What.GIVEN, _What.WEIGHTED, _What.SUM, _What.CENTRED, _What.GRADIENT)
"""A multiple of one is that of what is made of it."""
_OF_QUERIES = (_What.MOST, _What.TOTAL, _What.RECIPROCAL, _What.SUM)


class _Reader:
    """Args:
        matmuls: and what they are.
        inside: what may be read between them.
    """

    def __init__(self, matmuls: Mapping[Node, _Meaning], inside: Collection[Node]) -> None:
        self._known: dict[Node, _Meaning | None] = {**matmuls}
        self._inside = frozenset(inside)

    def meaning(self, node: Node) -> _Meaning | None:
        if node not in self._known:
            self._known[node] = self._read(node) if node in self._inside else None
        return self._known[node]

    def _read(self, node: Node) -> _Meaning | None:
        kind = node.kind
        first = self.meaning(node.operands[0])
        if exchanges_last(node):
            return first and replace(first, exchanged=not first.exchanged)
        if kind is OpKind.SELECT:
            return self._selected(node)
        if kind is OpKind.MUL:
            return self._multiplied(*node.operands)
        if first is None or first.exchanged:
            return first if kind is OpKind.CAST and node.type.dtype.is_float else None
        if kind is OpKind.CAST:
            return first if node.type.dtype.is_float else None
        if kind in (OpKind.RESHAPE, OpKind.BROADCAST):
            return first if first.what in _OF_QUERIES and _is_column(node, node.operands[0]) else None
        if kind is OpKind.EXP:
            return _as(first, _What.EXPONENTIAL) if first.what is _What.BELOW else None
        if kind is OpKind.RECIPROCAL:
            return _as(first, _What.RECIPROCAL) if first.what is _What.TOTAL else None
        if node.category is Category.REDUCTION:
            return _reduced(node, first)
        if kind is OpKind.DIV:
            return self._quotient(first, node.operands[1])
        second = self.meaning(node.operands[1]) if kind is OpKind.SUB else None
        return second and _combined(first, second, _DIFFERENCES)

    def _multiplied(self, one: Node, other: Node) -> _Meaning | None:
        first, second = self.meaning(one), self.meaning(other)
        if first is None and second is None:
            return None
        if first is None or second is None:
            factor = constant_of(one if first is None else other)
            return _scaled(first or second, factor)
        return _combined(first, second, _MULTIPLIED) or _combined(second, first, _MULTIPLIED)

    def _quotient(self, first: _Meaning, by: Node) -> _Meaning | None:
        total = self.meaning(by)
        if total is not None:
            return _combined(first, total, {(_What.EXPONENTIAL, _What.TOTAL): _What.PROBABILITY})
        divisor = constant_of(by)
        return _scaled(first, 1 / divisor) if divisor else None

    def _selected(self, node: Node) -> _Meaning | None:
        mask, *sides = node.operands
        for kept, (inside, outside) in ((True, sides), (False, sides[::-1])):
            found, value = self.meaning(inside), constant_of(outside)
            if found is None or value is None or found.exchanged or mask.type.dims[-2:] != node.type.dims[-2:] \
                    or not is_triangle(mask, kept):
                continue
            if found.what is _What.SCORE and not found.masked and value <= HIDDEN:
                return replace(found, masked=True)
            if found.what in _ZERO_WHERE_MASKED and value == 0.0:
                return replace(found, zeroed=True)
        return None


def _as(meaning: _Meaning, what: _What) -> _Meaning:
    return replace(meaning, what=what)


def _scaled(meaning: _Meaning | None, factor: float | None) -> _Meaning | None:
    """A multiple of it, where that has a meaning. Masks hide scores that are scaled already."""
    if meaning is None or not factor:
        return None
    if meaning.what in _HAVE_FACTORS:
        return replace(meaning, factor=meaning.factor * factor)
    if meaning.what is _What.SCORE and not meaning.masked:
        return replace(meaning, scale=meaning.scale * factor)
    return None


def _is_column(node: Node, of: Node) -> bool:
    """Whether [..., queries, 1] is made of [..., queries], or elements of queries are repeated for each key."""
    dims = of.type.dims
    if node.kind is OpKind.RESHAPE:
        return node.type.dims == (*dims, 1)
    return dims[-1] == 1 and node.type.dims[:-1] == dims[:-1]


def _reduced(node: Node, meaning: _Meaning) -> _Meaning | None:
    attrs = node.attrs
    if not isinstance(attrs, ReduceAttrs) or attrs.axes != (node.operands[0].type.rank - 1,):
        return None
    if node.kind is OpKind.MAX and meaning.what is _What.SCORE:
        return _as(meaning, _What.MOST)
    if node.kind is OpKind.SUM and meaning.what in _SUMS:
        return _as(meaning, _SUMS[meaning.what])
    return None


def _combined(one: _Meaning, other: _Meaning, table: dict[_Pair, _What]) -> _Meaning | None:
    """What two make, of the same scores; a gradient of a probability is made of none."""
    what = table.get((one.what, other.what))
    if what is None or one.exchanged or other.exchanged:
        return None
    made = other if one.what is _What.GIVEN else one
    free = _What.GIVEN in (one.what, other.what)
    if not free and not (isclose(one.scale, other.scale) and one.masked is other.masked):
        return None
    if table is _DIFFERENCES and not isclose(one.factor, other.factor):
        return None
    factor = one.factor if table is _DIFFERENCES else one.factor * other.factor
    return _Meaning(what, made.scale, factor, made.masked, one.zeroed or other.zeroed)
