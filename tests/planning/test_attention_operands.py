"""What calls read in place of an attention's operands: no kernel scales queries, or copies keys for each head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tests.support.numbers import set_numbers
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_attentions import FusedAttention
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.interpreter import interpret
from tf_stitch.libraries.attention import AttentionCall
from tf_stitch.passes.attentions_to_calls import AttentionsToCalls
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.planning import attention_calls
from tf_stitch.planning.attention import find_attentions
from tf_stitch.planning.attention_operands import with_bare_operands
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.plain_attention import plain_attention

B, BF16, F32 = p.B, DType.BF16, DType.F32
FUSED = replace(H200, fused_attention=True)
BATCH, ROWS, HEADS, SHARED, SIZE = 2, 40, 6, 3, 32


@pytest.fixture(autouse=True)
def by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call costs no more among kernels than by itself: attentions that are quick to try are called."""
    set_numbers(monkeypatch, H200, "choices", attention_call_us=0.0)


def rows(name: str, heads: int = HEADS) -> Node:
    return B.input(name, BF16, (BATCH, ROWS, heads, SIZE))


def turned(x: Node) -> Node:
    return B.transpose(x, (0, 2, 1, 3))


def attended(q: Node, k: Node, v: Node) -> Node:
    scores = B.mul(B.cast(B.dot(q, k, False, True), F32), B.constant(0.25, F32))
    return B.dot(B.cast(p.softmax(scores), BF16), v)


def copies(x: Node, axis: int = 2) -> Node:
    """Of each head as many as share it, beside each other, as tf.repeat makes them."""
    before, shared, after = x.type.dims[:axis], x.type.dims[axis], x.type.dims[axis + 1:]
    apart = B.reshape(x, (*before, shared, 1, *after))
    return B.reshape(B.broadcast(apart, (*before, shared, SHARED, *after)), (*before, SHARED * shared, *after))


def in_turn(x: Node) -> Node:
    """All heads, as often as they are shared: neighbours share none."""
    apart = B.reshape(x, (BATCH, ROWS, 1, HEADS // SHARED, SIZE))
    return B.reshape(B.broadcast(apart, (BATCH, ROWS, SHARED, HEADS // SHARED, SIZE)), (BATCH, ROWS, HEADS, SIZE))


def bare(graph: TensorGraph) -> tuple[FusedAttention, FusedAttention]:
    """What the attention of a graph is, and what its call reads."""
    graph = SimplifyMovement().run(graph).graph
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    [attention] = find_attentions(nodes, users, wanted)
    fused = plain_attention(attention)
    assert fused is not None
    return fused, with_bare_operands(fused, users, wanted)


def check(graph: TensorGraph) -> None:
    """The pass makes of it what means the same."""
    after = AttentionsToCalls(lambda graph: [bare(graph)[1]]).run(SimplifyMovement().run(graph).graph).graph
    values = random_values(graph)
    compare(graph, interpret(after, values), *reference(graph, values), "as a call")


def doubled(x: Node) -> Node:
    return B.mul(x, B.constant(2.0, BF16))


SCALED: dict[str, Callable[[], Node]] = {
    "rows": lambda: turned(doubled(rows("q"))),
    "heads": lambda: B.mul(B.constant(2.0, BF16), turned(rows("q"))),
    "one of three": lambda: turned(doubled(B.reshape(B.slice(
        B.input("x", BF16, (BATCH, ROWS, 3, HEADS, SIZE)), (0, 0, 1, 0, 0), (1,) * 5, (BATCH, ROWS, 1, HEADS, SIZE)),
        (BATCH, ROWS, HEADS, SIZE)))),
}


@pytest.mark.parametrize("name", SCALED)
def test_queries_are_read_before_they_are_scaled(name: str) -> None:
    graph = region(name, [attended(SCALED[name](), turned(rows("k")), turned(rows("v")))])
    before, after = bare(graph)
    assert before.scale == pytest.approx(0.25)
    assert after.scale == pytest.approx(0.5)
    assert after.queries.dims == before.queries.dims
    assert (after.keys, after.values) == (before.keys, before.values)
    check(graph)


@pytest.mark.parametrize("which", range(6))
def test_queries_that_are_read_as_they_are(which: int) -> None:
    q = doubled(rows("q"))
    others: list[Node] = []
    if which == 0:  # others read them
        others = [B.exp(q)]
    if which == 1:
        others = [q]
    if which == 2:
        q = B.mul(rows("q"), B.input("by", BF16, ()))
    if which == 3:
        q = B.mul(rows("q"), rows("by"))
    if which == 4:
        q = B.mul(rows("q"), B.constant(float("inf"), BF16))
    if which == 5:  # rows begin anywhere
        q = doubled(B.slice(B.input("q", BF16, (BATCH, ROWS, HEADS, SIZE + 1)), (0,) * 4, (1,) * 4,
                            (BATCH, ROWS, HEADS, SIZE)))
    before, after = bare(region("g", [attended(turned(q), turned(rows("k")), turned(rows("v"))), *others]))
    assert before == after


@pytest.mark.parametrize("by_heads", [False, True])
@pytest.mark.parametrize("columns_first", [False, True])
def test_keys_are_read_before_they_are_copied(by_heads: bool, columns_first: bool) -> None:
    def shared(name: str) -> Node:
        x = rows(name, HEADS // SHARED)
        return copies(turned(x), 1) if by_heads else turned(copies(x))

    q, k, v = turned(rows("q")), shared("k"), shared("v")
    if columns_first:
        scores = B.dot(q, B.transpose(k, (0, 1, 3, 2)))
        graph = region("g", [B.dot(B.cast(p.softmax(B.cast(scores, F32)), BF16), v)])
    else:
        graph = region("g", [attended(q, k, v)])
    before, after = bare(graph)
    assert before.keys.dims == before.values.dims == (BATCH, HEADS, ROWS, SIZE)
    assert after.keys.dims == after.values.dims == (BATCH, HEADS // SHARED, ROWS, SIZE)
    assert after.queries == before.queries
    check(graph)


@pytest.mark.parametrize("which", range(4))
def test_keys_that_are_read_as_they_are(which: int) -> None:
    k, v = (turned(copies(rows(name, HEADS // SHARED))) for name in "kv")
    if which == 0:
        v = turned(rows("v"))
    if which == 1:
        k, v = (turned(in_turn(rows(name, HEADS // SHARED))) for name in "kv")
    if which == 2:  # rows begin anywhere
        whole = B.input("v", BF16, (BATCH, ROWS, HEADS // SHARED, SIZE + 1))
        v = turned(copies(B.slice(whole, (0,) * 4, (1,) * 4, (BATCH, ROWS, HEADS // SHARED, SIZE))))
    if which == 3:  # columns are repeated, not heads
        k, v = (turned(B.reshape(copies(B.input(name, BF16, (BATCH, ROWS, HEADS, 8)), 3), (BATCH, ROWS, HEADS, 24)))
                for name in "kv")
    q = turned(B.input("q", BF16, (BATCH, ROWS, HEADS, k.type.dims[3])))
    before, after = bare(region("g", [attended(q, k, v)]))
    assert before == after


def test_no_kernel_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    k, v = (copies(rows(name, HEADS // SHARED)) for name in "kv")
    graph = region("g", [turned(attended(turned(doubled(rows("q"))), turned(k), turned(v)))])
    assert len(compiled(graph, H200).kernels) > 3
    monkeypatch.setattr(attention_calls, "call_us", lambda *sizes: 0.0)
    built = compiled(graph, FUSED)
    assert not built.kernels
    [call] = [bound.call for bound in built.calls]
    assert isinstance(call, AttentionCall)
    assert (call.heads, call.shared, call.scale) == (HEADS, SHARED, pytest.approx(0.5))
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


@pytest.mark.parametrize("biased", [False, True])
def test_a_layer_is_library_calls_alone(biased: bool) -> None:
    """One matmul gives queries, keys and values, and the layer scales queries: no kernel is left of it."""
    batch, length, heads, size = 16, 256, 12, 64
    wide = B.dot(B.input("x", BF16, (batch * length, 768)), B.input("w", BF16, (768, 3 * heads * size)))
    if biased:
        wide = B.add(wide, B.input("bias", BF16, (3 * heads * size,)))
    wide = B.reshape(wide, (batch, length, 3, heads, size))
    q, k, v = (B.reshape(B.slice(wide, (0, 0, i, 0, 0), (1,) * 5, (batch, length, 1, heads, size)),
                         (batch, length, heads, size)) for i in range(3))
    mixed = B.reshape(turned(attended(turned(doubled(q)), turned(k), turned(v))), (batch * length, heads * size))
    graph = region("layer", [B.dot(mixed, B.input("out", BF16, (heads * size, 768)))])
    assert len(compiled(graph, H200).kernels) == 2
    built = compiled(graph, FUSED)
    assert not built.kernels
    assert [isinstance(bound.call, AttentionCall) for bound in built.calls] == [False, True, False]
