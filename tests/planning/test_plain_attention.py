"""Which attentions are plain enough for a library's fused kernels, and which are not."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential import patterns as p
from tests.differential.attention_steps import B, Pair, Step, causal, dropped, masked, padding
from tests.differential.runner import region
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_attentions import FusedAttention, FusedTraining
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.text_parser import parse_graph
from tf_stitch.planning.attention import find_attentions
from tf_stitch.planning.find_attention_gradients import find_trained
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.plain_attention import plain_attention, plain_training

GRAPHS = Path(__file__).parent / "graphs" / "attention"
F32, BF16 = DType.F32, DType.BF16
SQUARE = Step(BF16, batch=2, queries=24, keys=24, heads=2, size=32)


def found(graph: TensorGraph) -> FusedTraining | None:
    nodes = graph.nodes()
    [trained] = find_trained(nodes, users_of(nodes), frozenset(live_out(graph)))
    return plain_training(trained)


def untrained(graph: TensorGraph) -> FusedAttention | None:
    nodes = graph.nodes()
    [attention] = find_attentions(nodes, users_of(nodes), frozenset(live_out(graph)))
    return plain_attention(attention)


def between(score: Callable[[Node], Node], gradient: Callable[[Node], Node] = lambda d: d) -> Callable[[Node], Pair]:
    return lambda like: (score, gradient)


def number(value: float) -> Node:
    return B.constant(value, F32)


@pytest.mark.parametrize("step", [SQUARE, replace(SQUARE, keys=40), replace(SQUARE, keys_first=True),
                                  replace(SQUARE, dtype=DType.F16)], ids=range(4))
def test_without_a_mask(step: Step) -> None:
    fused = found(step.graph())
    assert fused is not None
    assert not fused.causal
    assert fused.scale == pytest.approx(0.2)
    assert fused.queries.dims == fused.grad.dims == (2, 2, 24, 32)
    assert fused.keys.dims == fused.values.dims == (2, 2, step.keys, 32)
    assert fused.result.dims == fused.query_grad.dims == fused.queries.dims
    assert fused.key_grad.dims == fused.value_grad.dims == fused.keys.dims
    assert fused.value_grad.exchanged


@pytest.mark.parametrize(("keys_first", "hidden"), [(False, -1e9), (True, -1e9), (False, float(BF16.numpy.type(-1e9))),
                                                    (False, float("-inf"))])
def test_with_the_causal_mask(keys_first: bool, hidden: float) -> None:
    fused = found(replace(SQUARE, score=causal(0, hidden), keys_first=keys_first).graph())
    assert fused is not None
    assert fused.causal


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.txt.gz")), ids=lambda path: path.name.split(".")[0])
def test_layers_of_keras(path: Path) -> None:
    """Padding masks and dropout are more than that; a ViT has neither."""
    fused = found(parse_graph(gzip.decompress(path.read_bytes()).decode()))
    assert (fused is not None) is path.name.startswith("vit")
    if fused is not None:
        assert not fused.causal
        assert fused.scale == pytest.approx(32**-0.5)


@pytest.mark.parametrize("score", [
    padding, masked, causal(1), causal(-1), causal(0, -100.0), causal(0, 1.0),
    between(lambda s: B.mul(s, number(3.0))),  # the gradient is not
    between(lambda s: s, lambda d: B.mul(d, number(3.0))),
    between(lambda s: B.mul(s, number(-1.0)), lambda d: B.mul(d, number(1.0))),
    between(lambda s: B.add(s, number(1.0))), between(lambda s: B.op(K.TANH, s)),
    between(lambda s: B.mul(s, s)), between(lambda s: s, lambda d: B.select(B.op(K.LESS, d, number(0.0)), d, d)),
    between(lambda s: s, lambda d: B.mul(d, d))], ids=range(14))
def test_anything_else_is_not_plain(score: Callable[[Node], Pair]) -> None:
    assert found(replace(SQUARE, score=score).graph()) is None


def test_masks_of_probabilities_and_gradients_are_the_scores() -> None:
    """As Keras' softmax makes 0 what its mask hides once more."""
    def pair(like: Node) -> Pair:
        shape = like.type.shape[-2:]
        seen = B.op(K.LESS_EQUAL, B.iota(shape, 1, DType.I32), B.iota(shape, 0, DType.I32))
        return lambda s: B.select(seen, s, number(0.0)), lambda d: B.select(seen, d, number(0.0))
    fused = found(replace(SQUARE, score=causal(), weight=pair).graph())
    assert fused is not None
    assert fused.causal
    assert found(replace(SQUARE, weight=pair).graph()) is None


def test_scales_are_multiplied() -> None:
    fused = found(replace(SQUARE, score=between(lambda s: B.div(B.mul(s, number(3.0)), number(2.0)),
                                                lambda d: B.mul(d, number(1.5)))).graph())
    assert fused is not None
    assert fused.scale == pytest.approx(0.3)


@pytest.mark.parametrize("which", range(4))
def test_any_factor_of_a_gradient_may_have_the_scale(which: int) -> None:
    """TensorFlow's optimizer moves it there: to probabilities for a ViT."""
    batch, heads, length, size = 2, 2, 24, 32
    q, k, v, do = (B.input(name, BF16, (batch, heads, length, size)) for name in ("q", "k", "v", "do"))

    def scaled(one: int, node: Node) -> Node:
        return B.mul(number(0.2), node) if one == which else node

    exponentials = p.softmax(B.mul(B.cast(B.dot(q, k, False, True), F32), number(0.2)))
    given = scaled(0, B.cast(B.dot(do, v, False, True), F32))
    total = B.sum(B.mul(exponentials, given), [3], keepdims=True)
    centred = scaled(1, B.sub(given, total))
    gradient = B.cast(scaled(2, B.mul(scaled(3, exponentials), centred)), BF16)
    weights = B.cast(exponentials, BF16)
    ends = [B.dot(weights, v), B.dot(gradient, k), B.dot(gradient, q, True, False), B.dot(weights, do, True, False)]
    fused = found(region("step", ends))
    assert fused is not None
    assert fused.scale == pytest.approx(0.2)


def test_what_becomes_of_probabilities_is_not_plain() -> None:
    assert found(replace(SQUARE, weight=dropped).graph()) is None
    doubled = between(lambda s: B.mul(s, number(2.0)), lambda d: B.mul(d, number(2.0)))
    assert found(replace(SQUARE, weight=doubled).graph()) is None


def test_a_mask_has_to_be_that_of_the_scores() -> None:
    """Zeros where nothing was masked are gradients that are missing."""
    shape = (24, 24)
    seen = B.op(K.LESS_EQUAL, B.iota(shape, 1, DType.I32), B.iota(shape, 0, DType.I32))
    zeros = between(lambda s: s, lambda d: B.select(seen, d, number(0.0)))
    assert found(replace(SQUARE, score=zeros).graph()) is None


def test_the_gradient_of_another_softmax_is_not_plain() -> None:
    """Of scores with another scale: probabilities that gradients read are not those that weigh values."""
    graph = SQUARE.graph()
    other = replace(SQUARE, score=causal()).graph()
    mixed = region("mixed", [graph.outputs[0][1], *(node for _, node in other.outputs[1:])])
    nodes = mixed.nodes()
    trained = list(find_trained(nodes, users_of(nodes), frozenset(live_out(mixed))))
    assert all(plain_training(one) is None for one in trained)


@pytest.mark.parametrize("step", [SQUARE, replace(SQUARE, keys=40), replace(SQUARE, keys_first=True),
                                  replace(SQUARE, score=causal()), replace(SQUARE, score=causal(), keys_first=True)],
                         ids=range(5))
def test_without_gradients(step: Step) -> None:
    fused = untrained(step.graph("o"))
    assert fused is not None
    assert not isinstance(fused, FusedTraining)
    assert fused.causal is (step.score is not SQUARE.score)
    assert fused.scale == pytest.approx(0.2)
    assert fused.queries.dims == fused.result.dims == (2, 2, 24, 32)
    assert fused.keys.dims == fused.values.dims == (2, 2, step.keys, 32)


@pytest.mark.parametrize("score", [
    padding, masked, causal(1), causal(-1), causal(0, -100.0), between(lambda s: B.add(s, number(1.0))),
    between(lambda s: B.op(K.TANH, s))], ids=range(7))
def test_anything_else_without_gradients_is_not_plain(score: Callable[[Node], Pair]) -> None:
    assert untrained(replace(SQUARE, score=score).graph("o")) is None


def test_what_becomes_of_probabilities_without_gradients() -> None:
    """Zeros that are no mask's are not plain."""
    def zeros(like: Node) -> Pair:
        columns, rows = (B.iota(like.type.shape[-2:], axis, DType.I32) for axis in (1, 0))
        seen = B.op(K.LESS_EQUAL, columns, rows)
        return lambda s: B.select(seen, s, number(0.0)), lambda d: d
    doubled = between(lambda s: B.mul(s, number(2.0)))
    assert untrained(replace(SQUARE, score=causal(), weight=zeros).graph("o")) is not None
    for weight in (zeros, dropped, doubled):
        assert untrained(replace(SQUARE, weight=weight).graph("o")) is None
