"""Attentions with their gradients, as train steps have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.differential import patterns as p
from tests.differential.runner import region
from tf_stitch.ir.copies import Copies
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.attention_choice import copies_for
from tf_stitch.planning.find_attention_gradients import find_trained
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.part import PatternTimes

B = p.B
F32 = DType.F32
Pair = tuple[Callable[[Node], Node], Callable[[Node], Node]]
"""What is made of scores, and of their gradient."""


@dataclass(frozen=True)
class Step:
    """Sizes of an attention and its gradient.

    Attributes:
        width: columns of values; 0: as many as queries have.
        score: what becomes of scores, and of its gradient; halves are float32 there.
        weight: what becomes of probabilities before they weigh values.
        keys_first: scores are made as [keys, queries].
    """

    dtype: DType = F32
    batch: int = 2
    queries: int = 50
    keys: int = 77
    heads: int = 2
    size: int = 32
    width: int = 0
    score: Callable[[Node], Pair] = lambda like: (lambda s: s, lambda d: d)
    weight: Callable[[Node], Pair] = lambda like: (lambda s: s, lambda d: d)
    keys_first: bool = False

    def graph(self, results: str = "oqkv") -> TensorGraph:
        """The result, and gradients of queries, keys and values, each as [batch, length, heads, columns]."""
        width = self.width or self.size
        q, k, v = (self._heads(name, length, columns) for name, length, columns in
                   (("q", self.queries, self.size), ("k", self.keys, self.size), ("v", self.keys, width)))
        given = self._heads("do", self.queries, width)
        like = B.input("like", F32, (self.batch, self.heads, self.queries, self.keys))
        scored, score_gradient = self.score(like)
        weighed, weight_gradient = self.weight(like)
        product = B.transpose(B.dot(k, q, False, True), [0, 1, 3, 2]) if self.keys_first else B.dot(q, k, False, True)
        probabilities = p.softmax(scored(scaled(B.cast(product, F32))))
        weights = B.cast(weighed(probabilities), self.dtype)
        of_weights = weight_gradient(B.cast(B.dot(given, v, False, True), F32))
        total = B.sum(B.mul(probabilities, of_weights), [3], keepdims=True)
        of_scores = B.cast(scaled(score_gradient(B.mul(B.sub(of_weights, total), probabilities))), self.dtype)
        found = {"o": B.dot(weights, v), "q": B.dot(of_scores, k), "k": B.dot(of_scores, q, True, False)}
        # As einsum's gradient has it: [width, keys].
        of_values = B.transpose(B.dot(given, weights, True, False), [0, 3, 1, 2])
        stored = {name: B.transpose(node, [0, 2, 1, 3]) for name, node in found.items()} | {"v": of_values}
        return region("step", [stored[name] for name in results])

    def _heads(self, name: str, length: int, columns: int) -> Node:
        whole = B.input(name, self.dtype, (self.batch * length, self.heads * columns))
        return B.transpose(B.reshape(whole, (self.batch, length, self.heads, columns)), [0, 2, 1, 3])


def scaled(s: Node) -> Node:
    return B.mul(s, p.const(0.2, s))


def padding(like: Node) -> Pair:
    """An addend for each key."""
    dims = like.type.dims
    mask = B.input("m", F32, (dims[0], 1, 1, dims[-1]))
    return lambda s: B.add(s, mask), lambda d: d


def masked(like: Node) -> Pair:
    """Every query sees what the mask of all heads says."""
    seen = B.op(OpKind.GREATER, B.input("seen", DType.I32, like.type.shape[-2:]), B.constant(0, DType.I32))
    return (lambda s: B.select(seen, s, B.constant(-1e9, F32)), lambda d: B.select(seen, d, B.constant(0.0, F32)))


def causal(ahead: int = 0, value: float = -1e9) -> Callable[[Node], Pair]:
    """Queries see the keys up to so many behind their own position, which nobody has to say; others score `value`."""
    def pair(like: Node) -> Pair:
        shape = like.type.shape[-2:]
        last = B.add(B.iota(shape, 0, DType.I32), B.constant(ahead, DType.I32))
        seen = B.op(OpKind.LESS_EQUAL, B.iota(shape, 1, DType.I32), last)
        hidden = B.constant(value, F32)
        return lambda s: B.select(seen, s, hidden), lambda d: B.select(seen, d, B.constant(0.0, F32))
    return pair


def dropped(like: Node) -> Pair:
    """Dropout by numbers that somebody else drew."""
    kept = B.op(OpKind.LESS, B.input("drawn", F32, like.type.shape), p.const(0.5, like))
    zero = B.constant(0.0, F32)
    return ((lambda s: B.select(kept, B.mul(s, p.const(2.0, s)), zero)),
            (lambda d: B.mul(B.select(kept, d, zero), p.const(2.0, d))))


def all_copies(graph: TensorGraph, times: PatternTimes) -> list[Copies]:
    """What attention_copies gives where everything pays."""
    nodes = graph.nodes()
    found = find_trained(nodes, users_of(nodes), frozenset(live_out(graph)))
    return [copies for trained in found for copies in copies_for(trained)]
