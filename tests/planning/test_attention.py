"""What is one kernel as attention, what is not, and what its kernel reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import check_all, compiled, keys_of, region
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.families.attention import ATTENTION
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.attention import find_attentions
from tf_stitch.planning.limited_patterns import fused, limit_patterns
from tf_stitch.planning.plan_groups import groups_of, plan_of

B, F32 = p.B, DType.F32
SIZE = 24


def operands(dtype: DType = F32, batch: int = 2, length: int = 40, heads: int = 3, size: int = SIZE) -> list[Node]:
    """Queries, keys and values [batch, heads, length, size], as layers transpose them."""
    rows = (B.input(name, dtype, (batch, length, heads, size)) for name in "qkv")
    return [B.transpose(x, [0, 2, 1, 3]) for x in rows]


def weights(q: Node, k: Node) -> Node:
    return p.softmax(B.mul(B.dot(q, k, False, True), p.const(0.2, q)))


def layer(dtype: DType = F32, size: int = SIZE) -> TensorGraph:
    q, k, v = operands(dtype, size=size)
    return region("layer", [B.transpose(B.dot(weights(q, k), v), [0, 2, 1, 3])])


def rules(graph: TensorGraph, device: DeviceSpec = H200, aligned: bool = True) -> list[str]:
    return [kernel.schedule.family for kernel in compiled(graph, device, aligned).kernels]


def count(graph: TensorGraph) -> int:
    nodes = graph.nodes()
    return len(list(find_attentions(nodes, users_of(nodes), [node for _, node in graph.outputs])))


def test_it_is_one_kernel_that_computes_what_its_nodes_do() -> None:
    assert rules(layer()) == [ATTENTION.name]
    check_all(layer(), interpret_gpu=True)


@pytest.mark.parametrize(("device", "aligned"), [
    (replace(H200, tf32=False), True), (gpu_spec(H200.profile, "75"), True), (H200, False), (CPU, True)])
def test_devices_and_settings_that_it_is_not_for(device: DeviceSpec, aligned: bool) -> None:
    assert ATTENTION.name not in rules(layer(), device, aligned)


@pytest.mark.parametrize(("dtype", "size"), [(DType.F64, SIZE), (F32, 20), (F32, 136), (DType.F16, SIZE)])
def test_types_and_rows_that_the_kernel_does_not_have(dtype: DType, size: int) -> None:
    assert ATTENTION.name not in rules(layer(dtype, size))


def test_half_types_need_no_tf32() -> None:
    assert rules(layer(DType.BF16, 32), replace(H200, tf32=False)) == [ATTENTION.name]


def test_probabilities_that_are_used_elsewhere_are_kept() -> None:
    """As the gradients of a train step use them."""
    q, k, v = operands()
    probabilities = weights(q, k)
    mixed = B.dot(probabilities, v)
    assert count(region("inference", [mixed])) == 1
    assert count(region("train", [mixed, B.sum(probabilities, [0])])) == 0
    assert count(region("live-out", [mixed, probabilities])) == 0
    scores = B.dot(q, k, False, True)
    assert count(region("scores", [B.dot(p.softmax(scores), v), B.exp(scores)])) == 0


def test_a_softmax_of_something_else_is_none() -> None:
    q, k, v = operands()
    scores = B.dot(q, k, False, True)
    assert count(region("columns", [B.dot(p.softmax(scores, 2), v)])) == 0
    lowered = B.exp(B.sub(scores, B.reduce(OpKind.MAX, B.neg(scores), [3], keepdims=True)))
    assert count(region("other", [B.dot(B.div(lowered, B.sum(lowered, [3], keepdims=True)), v)])) == 0


def test_scores_that_use_the_matmul_twice_are_not_looked_at() -> None:
    q, k, v = operands()
    scores = B.dot(q, k, False, True)
    assert count(region("twice", [B.dot(p.softmax(B.mul(scores, B.exp(scores))), v)])) == 0


def test_values_that_are_made_of_scores_are_none() -> None:
    """They would have to be in memory before the kernel begins that computes them."""
    q, k, _ = operands()
    scores = B.dot(q, k, False, True)
    probabilities = p.softmax(scores)
    for values in (probabilities, B.exp(scores)):
        graph = region("own", [B.dot(probabilities, values)])
        assert count(graph) == 0
        check_all(graph, interpret_gpu=True)


def test_an_operand_that_others_need_transposed_is_read_there() -> None:
    q, k, v = operands()
    graph = region("shared", [B.dot(weights(q, k), v), B.exp(k)])
    result = compiled(graph, H200)
    assert ATTENTION.name in [kernel.schedule.family for kernel in result.kernels]
    check_all(graph, interpret_gpu=True)


def test_layers_that_follow_each_other() -> None:
    q, k, v = operands(batch=1)
    first = B.dot(weights(q, k), v)
    graph = region("layers", [B.dot(weights(first, k), B.add(v, first))])
    assert rules(graph).count(ATTENTION.name) == 2
    check_all(graph, interpret_gpu=True)


def test_a_matmul_reads_the_transposed_result_as_it_lies() -> None:
    q, k, v = (B.input(name, F32, (50, 40, SIZE)) for name in "qkv")
    moved = B.transpose(B.dot(weights(q, k), v), [1, 0, 2])
    graph = region("matmul", [B.dot(moved, B.input("w", F32, (40, SIZE, 32)))])
    assert rules(graph) == [ATTENTION.name]
    check_all(graph, interpret_gpu=True)


def test_a_plan_is_stored_and_read_back() -> None:
    plan = compiled(layer(), H200).plan
    again = plan_of(plan.graph, groups_of(plan), plan.solver)
    assert again.patterns == plan.patterns
    assert again.free == plan.free


def test_a_plan_that_is_cut_short_transposes_again() -> None:
    """Without fuel the matmuls are library calls, which cannot read what the kernel reads."""
    graph = layer()
    plan = compiled(graph, H200).plan
    assert len(limit_patterns(plan, 1).patterns) == 1
    assert not any(map(fused, limit_patterns(plan, 0).patterns))
    cut = compile_region(graph, *keys_of(graph), CompileOptions(H200, patterns=0))
    assert len(cut.calls) == 2
    assert [n.kind for k in cut.kernels for n in k.schedule.pattern.nodes].count(OpKind.TRANSPOSE) == 4


@pytest.mark.parametrize(("length", "is_attention"), [(64, True), (8192, False)])
def test_one_row_of_queries(length: int, is_attention: bool) -> None:
    """Few blocks read a short cache in one kernel; a long one is read by many, in sums. Neither calls the library."""
    q, k, v = (B.input(name, F32, (8, rows, 64)) for name, rows in (("q", 1), ("k", length), ("v", length)))
    step = compiled(region("step", [B.dot(weights(q, k), v)]), H200)
    assert (ATTENTION.name in [kernel.schedule.family for kernel in step.kernels]) is is_attention
    assert not step.calls
