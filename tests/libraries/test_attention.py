"""Attentions by a library: the calls of nodes, their words, their place in a plan, and what they compute by NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.ir import attention_reference
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, make_node
from tf_stitch.ir.op_attrs import AttentionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.libraries.attention import ATTENTION, AttentionCall, AttentionPass, Layout, call_us
from tf_stitch.libraries.registry import LIBRARIES, code_of, library_of

B = Builder()
GRADIENTS = (K.ATTENTION_QUERY_GRAD, K.ATTENTION_KEY_GRAD, K.ATTENTION_VALUE_GRAD)
FORWARD = (K.ATTENTION, K.ATTENTION_LOG_SUM)


def attention_nodes(dtype: DType, batch: int = 2, heads: int = 3, queries: int = 5, keys: int = 7, columns: int = 8,
                    causal: bool = False, rows_outside: bool = True) -> dict[K, Node]:
    """An attention of heads that lie beside each other in rows, and its gradients."""
    def heads_of(name: str, rows: int) -> Node:
        return _heads(f"{name}:0", dtype, (batch, rows, heads, columns))

    q, k, v, grad = (heads_of(*x) for x in (("q", queries), ("k", keys), ("v", keys), ("g", queries)))
    attrs = AttentionAttrs(0.25, causal, rows_outside)
    found = {K.ATTENTION: make_node(K.ATTENTION, (q, k, v), attrs),
             K.ATTENTION_LOG_SUM: make_node(K.ATTENTION_LOG_SUM, (q, k), replace(attrs, rows_outside=False))}
    result = B.transpose(found[K.ATTENTION], (0, 2, 1, 3)) if rows_outside else found[K.ATTENTION]
    operands = (q, k, v, result, grad, found[K.ATTENTION_LOG_SUM])
    return found | {kind: make_node(kind, operands, attrs) for kind in GRADIENTS}


def _heads(key: str, dtype: DType, dims: tuple[int, int, int, int]) -> Node:
    """[batch, heads, rows, columns] of [batch, rows, heads, columns], of which memory has the product of each two."""
    whole = B.input(key, dtype, (dims[0] * dims[1], dims[2] * dims[3]))
    return B.transpose(B.reshape(whole, dims), (0, 2, 1, 3))


def sharing_node(dtype: DType, batch: int = 2, heads: int = 6, shared: int = 3, queries: int = 5, keys: int = 7,
                 columns: int = 8, causal: bool = False) -> Node:
    """An attention with so many heads that share keys and values."""
    q = _heads("q:0", dtype, (batch, queries, heads, columns))
    k, v = (_heads(f"{name}:0", dtype, (batch, keys, heads // shared, columns)) for name in "kv")
    return make_node(K.ATTENTION, (q, k, v), AttentionAttrs(0.25, causal, True))


def test_it_takes_attentions_alone() -> None:
    nodes = attention_nodes(DType.BF16)
    for node in nodes.values():
        assert library_of(node, LIBRARIES) is ATTENTION
        assert library_of(B.exp(node), LIBRARIES) is None
        assert ATTENTION.match([node]) is not None
    assert ATTENTION.match([nodes[kind] for kind in FORWARD]) is not None
    assert ATTENTION.match([nodes[kind] for kind in GRADIENTS]) is not None
    assert ATTENTION.match([nodes[K.ATTENTION], nodes[K.ATTENTION_KEY_GRAD]]) is None
    others = attention_nodes(DType.BF16)
    assert ATTENTION.match([nodes[K.ATTENTION], others[K.ATTENTION_LOG_SUM]]) is None


def call_of(*nodes: Node) -> AttentionCall:
    fused = ATTENTION.match(nodes)
    assert fused is not None
    call = ATTENTION.bind(fused, ()).call
    assert isinstance(call, AttentionCall)
    return call


def test_words() -> None:
    nodes = attention_nodes(DType.F16, causal=False)
    q, k, v = (node.operands[0].operands[0] for node in nodes[K.ATTENTION].operands)
    fused = ATTENTION.match([nodes[kind] for kind in FORWARD])
    assert fused is not None
    bound = ATTENTION.bind(fused, ())
    assert bound.arguments == (*((x, Mode.READ) for x in (q, k, v)), *((nodes[x], Mode.WRITE) for x in FORWARD))
    call = bound.call
    at_queries, at_keys = Layout(0, 120, 8, 24), Layout(0, 168, 8, 24)
    assert call == AttentionCall(AttentionPass.FORWARD, DType.F16, 2, 3, 1, 5, 7, 8, 0.25, False, FORWARD,
                                 (at_queries, at_keys, at_keys, at_queries))
    assert LIBRARIES[code_of(call)] is ATTENTION
    layouts = [*(0, 120, 8, 24), *(0, 168, 8, 24), *(0, 168, 8, 24), *(0, 120, 8, 24)]
    assert call.record.words(**call.members()) == [0, 19, 2, 3, 1, 5, 7, 8, 0x3E800000, 0, 3, 16, *layouts]
    assert call.operand_bytes() == [480, 672, 672, 480, 120]
    assert call.domain == (30, 8)
    assert call.at_hand() == call
    assert str(call) == "an attention float16 2x3 heads [5,7]x8"


def test_words_of_gradients() -> None:
    nodes = attention_nodes(DType.BF16, queries=7, causal=True)
    whole = call_of(*(nodes[kind] for kind in GRADIENTS))
    lying = Layout(0, 168, 8, 24)
    assert whole.layouts == (lying,) * 8
    assert whole.members()["results"] == 7
    assert str(whole) == "gradients of an attention bfloat16 2x3 heads [7,7]x8 causal"
    one = call_of(nodes[K.ATTENTION_KEY_GRAD])
    packed = Layout(0, 168, 56, 8)
    assert one.layouts == (*(lying,) * 5, packed, lying, packed)
    assert one.members()["results"] == 2
    assert len(one.operand_bytes()) == 7


def test_a_slice_is_read_as_it_lies() -> None:
    """Queries, keys and values beside each other, as one matmul gives them."""
    whole = B.input("x:0", DType.BF16, (2, 7, 3, 3, 8))
    parts = [B.transpose(B.reshape(B.slice(whole, (0, 0, i, 0, 0), (1,) * 5, (2, 7, 1, 3, 8)), (2, 7, 3, 8)),
                         (0, 2, 1, 3)) for i in range(3)]
    call = call_of(make_node(K.ATTENTION, parts, AttentionAttrs(1.0, True)))
    assert call.layouts == (*(Layout(24 * i, 504, 8, 72) for i in range(3)), Layout(0, 168, 56, 8))


@pytest.mark.parametrize(("size", "dims"), [(9, (2, 7, 9, 8)), (10, (2, 7, 10, 8))])
def test_rows_that_do_not_begin_at_16_bytes_are_not_read_so(size: int, dims: tuple[int, ...]) -> None:
    whole = B.input("x:0", DType.BF16, (2, 7, 3, size))
    path = [B.slice(whole, (0, 0, 0, 0), (1, 1, 1, 1), (2, 7, 3, 8))]
    assert not ATTENTION.reads(path)
    assert not ATTENTION.reads([B.transpose(B.input("y:0", DType.BF16, dims), (0, 1, 3, 2))])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows_outside", [False, True])
def test_what_it_computes_is_what_its_nodes_do(causal: bool, rows_outside: bool) -> None:
    """Planned as two calls; views on the way are none."""
    nodes = attention_nodes(DType.BF16, queries=7, causal=causal, rows_outside=rows_outside)
    graph = region("g", [*nodes.values()])
    built = compiled(graph, H200)
    assert not built.kernels
    assert sorted(len(call.nodes) for call in built.calls) == [2, 3]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


def test_what_lies_otherwise_is_stored_first() -> None:
    nodes = attention_nodes(DType.F16)
    q = B.transpose(B.input("t:0", DType.F16, (2, 3, 8, 5)), (0, 1, 3, 2))
    k, v = nodes[K.ATTENTION].operands[1:]
    graph = region("g", [make_node(K.ATTENTION, (q, k, v), AttentionAttrs(0.5, False))])
    built = compiled(graph, H200)
    assert [len(built.kernels), len(built.calls)] == [1, 1]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


def test_gradients_are_those_of_the_result() -> None:
    """By differences, in float64."""
    random = np.random.default_rng(0)
    q, k, v, weights = (random.standard_normal((2, 3, 6, 8)) for _ in range(4))
    attrs = AttentionAttrs(0.3, True)
    result, log_sum = attention_reference.attended(attrs, q, k, v), attention_reference.log_sum(attrs, q, k)
    given = (q, k, v, result, weights, log_sum)
    for which, gradient in enumerate((attention_reference.query_grad, attention_reference.key_grad,
                                      attention_reference.value_grad)):
        found, step = gradient(attrs, *given), random.standard_normal((2, 3, 6, 8))
        ends = [attention_reference.attended(attrs, *(x + sign * 1e-5 * step if i == which else x
                                                      for i, x in enumerate((q, k, v)))) for sign in (1, -1)]
        slope = float(((ends[0] - ends[1]) * weights).sum() / 2e-5)
        assert slope == pytest.approx(float((found * step).sum()), rel=1e-6)


def test_a_cpu_has_none() -> None:
    with pytest.raises(ScheduleError, match="a library call of its own"):
        compiled(region("g", [attention_nodes(DType.BF16)[K.ATTENTION]]), CPU)


def test_a_tensor_beyond_32_bits_is_too_large() -> None:
    call = call_of(attention_nodes(DType.BF16)[K.ATTENTION])
    assert call.too_large() == ""
    assert "more elements than" in replace(call, batch=1 << 30).too_large()


@pytest.mark.parametrize(("sizes", "causal", "forward", "gradients"), [
    ((192, 256, 256, 64), True, 14.84, 51.01), ((64, 1024, 1024, 64), True, 34.89, 107.03),
    ((384, 197, 197, 64), False, 26.30, 82.99), ((64, 512, 512, 128), True, 20.96, 71.79),
    ((96, 128, 128, 64), False, 6.45, 16.76)])
def test_its_times_are_those_that_were_measured(sizes: tuple[int, int, int, int], causal: bool, forward: float,
                                                gradients: float) -> None:
    """On an H200."""
    calls = H200.profile.library_calls
    assert call_us(AttentionPass.FORWARD, *sizes, causal, calls) == pytest.approx(forward, rel=0.16)
    assert call_us(AttentionPass.GRADIENT, *sizes, causal, calls) == pytest.approx(gradients, rel=0.16)


def test_what_operands_are_made_by_is_in_kernels() -> None:
    """A kernel of ours would make elements that are cheap anew; a call reads memory."""
    q, k, v = (B.mul(B.input(f"{name}:0", DType.BF16, (2, 3, 7, 8)), B.constant(2.0, DType.BF16)) for name in "qkv")
    graph = region("g", [make_node(K.ATTENTION, (q, k, v), AttentionAttrs(0.5, True))])
    built = compiled(graph, H200)
    assert [len(built.kernels), len(built.calls)] == [3, 1]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


def test_what_lies_backwards_is_stored_first() -> None:
    q, k, v = (B.input(f"{name}:0", DType.BF16, (2, 3, 7, 8)) for name in "qkv")
    q = B.slice(q, (0, 2, 0, 0), (1, -1, 1, 1), (2, 3, 7, 8))
    graph = region("g", [make_node(K.ATTENTION, (q, k, v), AttentionAttrs(0.5, True))])
    built = compiled(graph, H200)
    assert [len(built.kernels), len(built.calls)] == [1, 1]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


def test_heads_that_share_keys() -> None:
    call = call_of(sharing_node(DType.BF16))
    at_queries, at_keys = Layout(0, 240, 8, 48), Layout(0, 112, 8, 16)
    assert call.layouts == (at_queries, at_keys, at_keys, at_queries)
    assert (call.heads, call.shared, call.members()["shared"]) == (6, 3, 3)
    assert call.operand_bytes() == [960, 448, 448, 960]
    assert str(call) == "an attention bfloat16 2x6 heads by 3 [5,7]x8"


@pytest.mark.parametrize("causal", [False, True])
def test_neighbouring_heads_share_keys(causal: bool) -> None:
    """As if each had a copy of its own."""
    node = sharing_node(DType.F32, queries=7, causal=causal)
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(operand.type.dims) for operand in node.operands)
    copies = (np.stack([x[:, head // 3] for head in range(6)], 1) for x in (k, v))
    found = attention_reference.attended(AttentionAttrs(0.25, causal), q, k, v)
    np.testing.assert_allclose(found, attention_reference.attended(AttentionAttrs(0.25, causal), q, *copies))
    graph = region("g", [sharing_node(DType.BF16, queries=7, causal=causal)])
    built = compiled(graph, H200)
    assert [len(built.kernels), len(built.calls)] == [0, 1]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")
