"""Which matmuls become kernels of ours, and what stays a library's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import check_all, compare, keys_of, random_values, reference, region, run_kernel_ir
from tests.support.numbers import set_numbers
from tests.support.stitched_matmuls import B, compiled_stitched, row, scaled_gelu, silu, swiglu, x
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.families.matmul import MATMUL
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.limited_patterns import limit_patterns
from tf_stitch.planning.matmul_choice import Stitching, stitching_of
from tf_stitch.planning.plan_groups import groups_of, plan_of
from tf_stitch.planning.planner import PlanOptions

BF16, F32 = DType.BF16, DType.F32


def dense(dtype: DType = BF16, m: int = 40, k: int = 64, n: int = 48) -> Node:
    return B.dot(x("x", dtype, m, k), x("w", dtype, k, n))


def families(result: CompiledRegion) -> list[str]:
    return [kernel.schedule.family for kernel in result.kernels]


def test_the_whole_pattern_is_one_kernel() -> None:
    result = compiled_stitched(region("g", scaled_gelu(BF16)))
    assert families(result) == [MATMUL.name]
    assert not result.calls
    assert len(result.executable.steps) == 1
    assert result.plan.solver is not None
    assert result.plan.solver.kernels == 1


def test_by_default_a_library_has_all_matmuls() -> None:
    result = compile_region(*_arguments(region("g", scaled_gelu(BF16))), CompileOptions(H200))
    assert MATMUL.name not in families(result)
    assert len(result.calls) == 1


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_few_rows_are_a_kernel_s_with_what_follows_through_reshapes(dtype: DType) -> None:
    """A layer of a decoder: its results have an axis more, and gelu is none that the library knows."""
    matmul = B.dot(B.reshape(x("x", dtype, 16, 1, 768), (16, 768)), x("w", dtype, 768, 512))
    biased = B.add(B.reshape(matmul, (16, 1, 512)), x("b", dtype, 512))
    graph = region("g", [p.gelu_erf(biased)])
    result = compile_region(*_arguments(graph), CompileOptions(H200))
    assert families(result) == [MATMUL.name]
    assert not result.calls
    if dtype is BF16:  # smaller layers have no such kernel; tests/emit/test_matmul.py interprets both types
        values = random_values(graph)
        compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "kernel IR")


def cell(product: Node, state: Node) -> tuple[Node, Node]:
    """An LSTM's states, of its four gates."""
    rows, columns = state.type.shape
    into, forget, new, out = (B.slice(product, (0, i * columns), (1, 1), (rows, columns)) for i in range(4))
    sigmoid = OpKind.SIGMOID
    state = B.add(B.mul(B.op(sigmoid, forget), state), B.mul(B.op(sigmoid, into), B.op(OpKind.TANH, new)))
    return B.mul(B.op(sigmoid, out), B.op(OpKind.TANH, state)), state


def recurrent(layers: int, steps: int, rows: int = 32, units: int = 64) -> TensorGraph:
    """LSTMs on top of each other; the first one's matmuls with its inputs are given."""
    states = [(x(f"h{i}", F32, rows, units), x(f"c{i}", F32, rows, units)) for i in range(layers)]
    weights = [(x(f"w{i}", F32, units, 4 * units), x(f"u{i}", F32, units, 4 * units)) for i in range(layers)]
    last = []
    for step in range(steps):
        given: Node | None = None
        for i, ((h, c), (w, u)) in enumerate(zip(states, weights, strict=True)):
            seen = x(f"x{step}", F32, rows, 4 * units) if given is None else B.dot(given, w)
            given, c = cell(B.add(seen, B.dot(h, u)), c)
            states[i] = given, c
        last.append(given)
    return region("layers", [h for h in last if h is not None] + [c for _, c in states])


def test_a_step_of_a_recurrent_layer_is_one_kernel_compiled_once() -> None:
    graph = recurrent(1, 6)
    result = compile_region(*_arguments(graph), CompileOptions(H200))
    assert families(result) == [MATMUL.name] * 6
    assert not result.calls
    assert len(set(result.launches)) <= 3, "but for the last one's, and the first's, whose states are inputs"
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "kernel IR")


def test_layers_wait_for_each_other_s_steps_alone() -> None:
    """The cell is in the kernel of the matmul that waits longer, with the layer's own state: so what a layer takes
    from the one below is multiplied while the step before runs, and a step more is one round more."""
    rounds = [max(compile_region(*_arguments(recurrent(2, steps)), CompileOptions(H200)).buffers.levels)
              for steps in (8, 9)]
    assert rounds[1] == rounds[0] + 1


def test_a_round_of_layers_is_one_launch() -> None:
    """Cells of both layers, in clusters of two, and what the upper one begins with, in none and of more memory."""
    result = compile_region(*_arguments(recurrent(2, 8, units=256)), CompileOptions(H200))
    assert len({(kernel.program.cluster, kernel.shared_bytes) for kernel in result.kernels}) == 2
    assert len(result.executable.steps) == max(result.buffers.levels) + 1


def gated(steps: int, rows: int, units: int) -> TensorGraph:
    """A GRU that resets its state before the matmul, and whose update somebody else scales, too."""
    w, v = x("w", F32, 2 * units, 2 * units), x("v", F32, 2 * units, units)
    h, bias = x("h", F32, rows, units), x("bias", F32, 2 * units)
    for step in range(steps):
        given = x(f"x{step}", F32, rows, units)
        gates = B.dot(B.concat([given, h], 1), w)
        gates = B.op(OpKind.SIGMOID, B.add(gates, row(bias, gates)))
        reset, update = (B.slice(gates, (0, i * units), (1, 1), (rows, units)) for i in range(2))
        new = B.op(OpKind.TANH, B.dot(B.concat([given, B.mul(reset, h)], 1), v))
        update = B.mul(B.broadcast(x(f"score{step}", F32, rows, 1), update.type.shape), update)
        h = B.add(B.mul(update, h), B.mul(B.sub(p.const(1, update), update), new))
    return region("gated", [h])


@pytest.mark.parametrize(("rows", "units"), [(40, 32), (256, 36), (256, 64)])
def test_a_cell_of_two_matmuls_is_two_kernels(rows: int, units: int) -> None:
    """Its gates are needed whole, and cut by the kernel of the second matmul, which also computes what it reads of
    them: so nothing is left between. Of 256 rows, too, whose results a library has in two tiles."""
    result = compile_region(*_arguments(gated(5, rows, units)), CompileOptions(H200))
    assert families(result) == [MATMUL.name] * 10
    assert not result.calls
    graph = gated(2, rows // 8, units)
    result = compile_region(*_arguments(graph), CompileOptions(H200))
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "kernel IR")


def test_a_state_s_matmul_does_not_wait_for_a_library_s_call() -> None:
    """A cell that reads a call which waits longer has a kernel of its own: the matmul runs before."""
    h, c = x("h", F32, 32, 64), x("c", F32, 32, 64)
    u, v, w = x("u", F32, 64, 256), x("v", F32, 64, 5000), x("w", F32, 5000, 256)
    for _ in range(4):
        read = B.dot(B.exp(B.dot(h, v)), w)  # more terms than a kernel of ours is asked for
        h, c = cell(B.add(read, B.dot(h, u)), c)
    result = compile_region(*_arguments(region("g", [h, c])), CompileOptions(H200))
    assert len(result.calls) >= 4
    alone = [kernel.schedule.pattern.nodes for kernel in result.kernels
             if kernel.schedule.family == MATMUL.name and kernel.schedule.dominant.type.shape == (32, 256)]
    assert [len(nodes) for nodes in alone] == [1] * 4


def test_cells_that_run_at_the_same_time_go_to_their_own_matmuls() -> None:
    """Of both directions of a layer, which planning puts into one kernel."""
    w = [x(f"u{i}", F32, 64, 256) for i in range(2)]
    states = [(x(f"h{i}", F32, 32, 64), x(f"c{i}", F32, 32, 64)) for i in range(2)]
    alive = B.op(OpKind.LESS, x("t", F32, 32, 1), x("end", F32, 32, 1))
    for _ in range(4):
        for i, (h, c) in enumerate(states):
            new, state = cell(B.dot(h, w[i]), c)
            states[i] = (B.select(B.broadcast(alive, h.type.shape), new, h),
                         B.select(B.broadcast(alive, h.type.shape), state, c))
    result = compile_region(*_arguments(region("both", [v for pair in states for v in pair])), CompileOptions(H200))
    assert families(result).count(MATMUL.name) == 8
    assert all(len(kernel.schedule.pattern.nodes) > 1 for kernel in result.kernels
               if kernel.schedule.family == MATMUL.name)
    assert max(result.buffers.levels) <= 4, "a round each, and one for what all share"


def test_many_rows_or_exact_matmuls_stay_the_library_s() -> None:
    for m, device in ((17, H200), (16, replace(H200, tf32=False))):
        graph = region("g", [dense(F32, m, 768, 512)])
        assert len(compile_region(*_arguments(graph), CompileOptions(device)).calls) == 1


def _arguments(graph: TensorGraph) -> tuple[TensorGraph, tuple[str, ...], tuple[str, ...]]:
    return graph, *keys_of(graph)


@pytest.mark.parametrize(("gain", "is_stitched"), [(-1e9, True), (1e9, False)])
def test_predicted_gains_decide(gain: float, is_stitched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    set_numbers(monkeypatch, H200, "choices", stitched_us=gain)
    graph = region("g", scaled_gelu(BF16))
    result = compile_region(*_arguments(graph), CompileOptions(H200, PlanOptions(matmuls=Stitching.PREDICTED)))
    assert (MATMUL.name in families(result)) is is_stitched


@pytest.mark.parametrize(("dtype", "surely"), [(F32, 0.9), (BF16, 0.0)])
def test_what_is_not_surely_faster_stays_a_call(dtype: DType, surely: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 of more than a few rows, which warpgroups do not multiply; and whatever gains less than it must."""
    set_numbers(monkeypatch, H200, "choices", stitched_us=-1e9)
    set_numbers(monkeypatch, H200, "choices", stitched_part=surely)
    graph = region("g", scaled_gelu(dtype))
    result = compile_region(*_arguments(graph), CompileOptions(H200, PlanOptions(matmuls=Stitching.PREDICTED)))
    assert MATMUL.name not in families(result)


def test_nothing_is_predicted_where_warpgroups_do_not_multiply() -> None:
    older = gpu_spec(H200.profile, "80")
    assert [stitching_of(name, older) for name in ("library", "predicted", "stitched")] == [
        Stitching.NONE, Stitching.NONE, Stitching.ALL]
    assert stitching_of("predicted", H200) is Stitching.PREDICTED
    assert stitching_of("predicted", CPU) is Stitching.PREDICTED


def test_what_a_call_computes_by_itself_stays_its() -> None:
    """A bias and an activation of the library's own."""
    product = dense()
    biased = B.add(product, row(x("b", BF16, 48), product))
    result = compiled_stitched(region("g", [B.maximum(biased, p.const(0, biased))]))
    assert not families(result)
    assert len(result.calls) == 1


def test_of_two_matmuls_around_a_product_one_stays_a_call() -> None:
    result = compiled_stitched(region("g", swiglu(BF16)))
    assert families(result) == [MATMUL.name]
    assert len(result.calls) == 1


def test_of_a_kernel_that_reduces_the_elements_are_taken() -> None:
    """A residual, and the layer norm behind it."""
    product = dense()
    total = B.add(B.mul(product, row(x("g", BF16, 48), product)), x("y", BF16, 40, 48))
    wide = B.cast(total, F32)
    normal = p.layernorm(wide, x("gamma", F32, 48), x("beta", F32, 48))
    graph = region("g", [total, B.cast(normal, BF16)])
    result = compiled_stitched(graph)
    assert families(result) == [MATMUL.name, "row_reduction"]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "kernel IR")


def test_an_operand_that_others_read_is_not_taken() -> None:
    scaled = B.mul(x("x", BF16, 40, 64), p.const(0.5, x("x", BF16, 40, 64)))
    graph = region("g", [silu(B.dot(scaled, x("w", BF16, 64, 48))), scaled])
    result = compiled_stitched(graph)
    assert sorted(families(result)) == ["elementwise", MATMUL.name]


def test_a_norm_leaves_its_statistics_to_a_kernel_of_rows() -> None:
    """Which then writes a number for each row, where it wrote all elements."""
    a = x("x", F32, 40, 96)
    deviation = B.op(OpKind.RSQRT, B.mean(B.square(a), [1], True))
    normal = B.mul(B.mul(a, deviation), row(x("g", F32, 96), a))
    graph = region("g", [B.dot(normal, x("w", F32, 96, 48))])
    result = compiled_stitched(graph)
    assert families(result) == ["row_reduction", MATMUL.name]
    assert [n.type.numel for n in result.kernels[0].schedule.pattern.outputs] == [40]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "kernel IR")


def test_a_long_reduction_is_no_operand() -> None:
    total = B.sum(x("x", BF16, 3, 24, 40, 65), [3])
    result = compiled_stitched(region("g", [silu(B.dot(total, x("y", BF16, 3, 40, 32)))]))
    assert sorted(families(result)) == [MATMUL.name, "row_reduction"]


def test_a_kernel_that_waits_for_a_reader_of_the_results_is_not_taken() -> None:
    """Sums of columns need all rows of the results, and what is made of both needs the sums."""
    product = dense(F32, m=400, n=64)
    scaled = B.mul(product, row(B.sum(product, [0]), product))
    graph = region("g", [scaled])
    result = compiled_stitched(graph)
    assert all(len(kernel.schedule.pattern.nodes) == 1 for kernel in result.kernels
               if kernel.schedule.family == MATMUL.name)
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "kernel IR")


def test_no_kernel_waits_for_itself() -> None:
    """y is made of the results, and of what the kernel that reads both makes."""
    product = dense(n=64)
    again = B.dot(B.exp(product), x("v", BF16, 64, 64))
    graph = region("g", [B.mul(silu(product), B.add(again, B.neg(product)))])
    result = compiled_stitched(graph)
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), "kernel IR")


@pytest.mark.parametrize("graph", [
    region("rows", [B.sum(dense(), [1])]),
    region("wider", [B.mul(B.reshape(dense(), (1, 40, 48)), x("y", BF16, 3, 40, 48))]),
    region("doubles", [silu(dense(DType.F64))])])
def test_what_is_no_part_of_the_kernel(graph: TensorGraph) -> None:
    result = compiled_stitched(graph)
    assert MATMUL.name not in families(result)
    assert len(result.calls) == 1


@pytest.mark.parametrize("device", [CPU, gpu_spec(H200.profile, "75")], ids=lambda d: d.name)
def test_devices_without_tensor_cores(device: DeviceSpec) -> None:
    assert MATMUL.name not in families(compiled_stitched(region("g", scaled_gelu(BF16)), device))


def test_a_plan_is_stored_and_read_back() -> None:
    plan = compiled_stitched(region("g", scaled_gelu(BF16))).plan
    assert plan_of(plan.graph, groups_of(plan), plan.solver).patterns == plan.patterns


def test_a_plan_that_is_cut_short_calls_the_library() -> None:
    plan = compiled_stitched(region("g", scaled_gelu(BF16))).plan
    assert len(limit_patterns(plan, 1).patterns) == 1
    assert OpKind.DOT in [pattern.nodes[0].kind for pattern in limit_patterns(plan, 0).patterns
                          if len(pattern.nodes) == 1]


def test_plans_without_it_mean_the_same() -> None:
    check_all(region("g", scaled_gelu(F32)))


def test_a_kernel_takes_nothing_that_leaves_more_in_memory() -> None:
    """Three values by element, which need the sum of their row, behind a matmul."""
    matmul = dense(F32, 256, 128, 128)
    total = B.broadcast(B.sum(matmul, (1,), keepdims=True), (256, 128))
    first, *others = (B.mul(B.op(kind, matmul), total) for kind in (OpKind.TANH, OpKind.EXP, OpKind.SIGMOID))
    for other in others:
        first = B.add(first, other)
    graph = region("g", [B.sum(first, (1,))])
    result = compile_region(*_arguments(graph), CompileOptions(CPU, PlanOptions(matmuls=Stitching.PREDICTED)))
    assert max(len(pattern.outputs) for pattern in result.plan.patterns) == 1
