"""Rows that are longer for a matmul stay so up to the next; values stay what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tests.passes.test_pad_matmuls import EVERY
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.passes.widen_rows import WidenRows

B, F32 = Builder(), DType.F32
ROWS, WORDS, WIDE = 6, 13, 16


def logits() -> Node:
    return B.dot(B.input("x:0", F32, (ROWS, 8)), B.input("w:0", F32, (WORDS, 8)), transpose_b=True)


def softmax(x: Node) -> Node:
    e = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [1], keepdims=True)))
    return B.div(e, B.sum(e, [1], keepdims=True))


def widened(outputs: list[Node]) -> TensorGraph:
    """The graph after both passes; values are as before."""
    before = region("g", outputs)
    return same_values(before, WidenRows().run(EVERY.run(before).graph).graph)


def test_a_loss_and_its_gradients() -> None:
    """Of a language model's head: all that is computed of scores has rows of one length."""
    scores = logits()
    labels = B.input("labels:0", DType.I32, (ROWS, 1))
    here = B.cast(B.op(OpKind.EQUAL, B.iota((1, WORDS), 1, DType.I32), labels), F32)
    gradient = B.sub(softmax(scores), here)
    graph = widened([B.sum(B.mul(scores, here), [1]), B.dot(gradient, scores.operands[1]),
                     B.dot(gradient, scores.operands[0], transpose_a=True)])  # fmt: skip
    made = [n for n in graph.nodes() if n.category is Category.ELEMENTWISE and n.type.rank == 2]
    assert {n.type.dims[-1] for n in made} == {WIDE}
    [cut] = [n for n in graph.nodes() if n.kind is OpKind.SLICE]
    assert cut.operands[0].kind is OpKind.DOT
    assert cut.type.dims == (WORDS, 8), "the gradient of the embeddings"
    assert [n.operands[0].type.dims for n in graph.nodes() if n.kind is OpKind.PAD] == [(WORDS, 8)]


@pytest.mark.parametrize("made", [
    lambda x: B.add(x, B.input("b:0", F32, (WORDS,))), lambda x: B.mul(x, B.input("y:0", F32, (ROWS, WORDS))),
    lambda x: B.reshape(x, (2, ROWS // 2, WORDS)), lambda x: B.sum(x, [0]), lambda x: B.sum(x, [0, 1]),
    lambda x: B.reduce(OpKind.PROD, x, [1]), lambda x: B.reduce(OpKind.MIN, x, [1]),
    lambda x: B.arg_reduce(OpKind.ARGMAX, x, 1, DType.I32), lambda x: B.transpose(x, [1, 0]),
    lambda x: B.add(x, B.cast(B.positions((ROWS, WORDS), DType.I32), F32)),
    lambda x: B.reduce(OpKind.ANY, B.op(OpKind.LESS, x, B.constant(0, F32)), [1]),
    lambda x: B.reduce(OpKind.ALL, B.op(OpKind.LESS, x, B.constant(0, F32)), [1]),
    lambda x: B.add(x, B.broadcast(B.input("c:0", F32, (ROWS, 1)), (ROWS, WORDS))),
    lambda x: B.pad(x, B.constant(2, F32), [0, 0], [0, 3]), lambda x: B.pad(x, B.constant(0, F32), [0, 1], [0, 2]),
    lambda x: B.div(B.constant(1, F32), x), lambda x: x,
])  # fmt: skip
def test_what_is_made_of_rows(made: Callable[[Node], Node]) -> None:
    widened([made(logits())])


def test_other_slices_stay() -> None:
    x = B.input("x:0", F32, (ROWS, WIDE))
    for whole, begin in ((x, 0), (B.dot(x, B.input("w:0", F32, (WIDE, WIDE))), 1)):
        cut = B.slice(whole, [0, begin], [1, 1], (ROWS, WORDS))
        assert not WidenRows().run(region("g", [B.sum(B.exp(cut), [1])])).modified


DOWN, UP = B.input("v:0", F32, (WORDS, 5)), B.input("u:0", F32, (5, WORDS))
STEPS: tuple[Callable[[Node], Node], ...] = (
    B.exp, B.neg, softmax, lambda x: B.sub(x, B.sum(x, [1], keepdims=True)),
    lambda x: B.mul(x, B.sum(x, [0], keepdims=True)),
    lambda x: B.reshape(B.reshape(x, (2, 3, WORDS)), (ROWS, WORDS)), lambda x: B.dot(B.dot(x, DOWN), UP))


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), st.integers(0, 3))
def test_chains(steps: list[Callable[[Node], Node]], kept: int) -> None:
    made = [B.mul(logits(), B.constant(0.01, F32))]
    for step in steps:
        made.append(B.mul(softmax(step(made[-1])), B.constant(0.1, F32)))
    widened([made[-1], *([made[kept]] if kept < len(made) - 1 else [])])


def test_gates_of_a_recurrent_cell_stay_cut() -> None:
    """The first ones of a matmul's columns, but many more were not added to them."""
    dot = B.dot(B.input("h:0", F32, (ROWS, 8)), B.input("u:0", F32, (8, 2 * WIDE)))
    left, right = (B.slice(dot, (0, first), (1, 1), (ROWS, WIDE)) for first in (0, WIDE))
    graph = region("g", [B.mul(B.exp(left), right)])
    assert not WidenRows().run(graph).modified
