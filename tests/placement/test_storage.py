"""Places of values: nothing alive is written over, and variables are updated in place only where that is safe."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.generator import make_case
from tests.differential.runner import (
    check_all,
    compare,
    compiled,
    keys_of,
    random_values,
    reference,
    region,
    run_kernel_ir,
)
from tests.schedule.long_rows import chain
from tests.support.tiers import each_commit
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Mode, Stmt
from tf_stitch.kernel_ir.walk import BufferAccess, accesses
from tf_stitch.placement import in_place, known_accesses
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.placement.executable import ALIGNMENT, DeviceLaunch, LibraryStep
from tf_stitch.placement.executable_format import Space, StateMode
from tf_stitch.placement.liveness import scratch_parts
from tf_stitch.placement.storage import plan_buffers

B, F32 = p.B, DType.F32


def planned(case: object, device: DeviceSpec) -> BufferPlan:
    result = compiled(case, device)  # type: ignore[arg-type]
    inputs, variables = keys_of(case)  # type: ignore[arg-type]
    return plan_buffers(result.plan.graph, result.kernels, inputs, variables, packed=device.simt,
                        order_bytes=device.profile.sizes.order_bytes)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("seed", each_commit(range(10), range(40)))
def test_values_alive_at_one_time_do_not_overlap(seed: int, device: DeviceSpec, monkeypatch: pytest.MonkeyPatch
                                                 ) -> None:
    monkeypatch.setattr(in_place, "WORTH_REUSING", 1 if seed % 2 else 1 << 40)
    plan = planned(make_case(random.Random(1000 + seed), 18, 300).graph, device)
    life: dict[Node, list[int]] = {}
    for at, kernel in zip(plan.levels, plan.kernels, strict=True):
        for node, mode in kernel.arguments:
            ref = plan.argument(node, mode)
            if ref.space is Space.ARENA:
                life.setdefault(node, []).append(at)
                assert ref.index % ALIGNMENT == 0
                assert ref.index + node.type.nbytes <= sum(plan.arena)
    for a in life:
        for b in life:
            if plan.reused.get(a) is b:
                assert max(life[b]) == min(life[a]), "the kernel that writes over a value is the last to read it"
            elif plan.reused.get(b) is not a and a is not b and min(life[a]) <= max(life[b]) \
                    and min(life[b]) <= max(life[a]):
                i, j = plan.place[a].index, plan.place[b].index
                assert i + a.type.nbytes <= j or j + b.type.nbytes <= i, "two live values overlap"


def test_values_that_groups_hand_on_share_memory_between_grid_barriers() -> None:
    graph = chain(1, 8193, 2)
    built = compiled(graph, H200)
    ((kernel,), (step,)) = built.kernels, built.executable.steps
    assert isinstance(step, DeviceLaunch)
    scratch = [(b, ref.index) for b, ref in zip(kernel.program.parameters, step.args, strict=False)
               if b.mode is Mode.SCRATCH]
    assert len(scratch) > 5
    assert built.executable.arena_bytes < sum(b.size * b.dtype.size for b, _ in scratch) / 2
    touched = {b.name: [i for i, part in enumerate(scratch_parts(kernel)) if b.name in part] for b, _ in scratch}
    for i, (a, at) in enumerate(scratch):
        for b, other in scratch[:i]:
            if at < other + b.size * b.dtype.size and other < at + a.size * a.dtype.size:
                assert touched[a.name][-1] < touched[b.name][0] or touched[b.name][-1] < touched[a.name][0]
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")


@pytest.mark.parametrize("seed", each_commit(range(10), range(40)))
def test_a_round_reads_nothing_that_it_or_a_later_round_writes(seed: int) -> None:
    plan = planned(make_case(random.Random(2000 + seed), 18, 300).graph, H200)
    written = {n: r for r, kernel in zip(plan.levels, plan.kernels, strict=True) for n,
               m in kernel.arguments if m is Mode.WRITE}
    for at, kernel in zip(plan.levels, plan.kernels, strict=True):
        for node, mode in kernel.arguments:
            assert mode is Mode.WRITE or node not in written or written[node] < at


def modes(graph: object, device: DeviceSpec) -> dict[str, StateMode]:
    e = compiled(graph, device).executable  # type: ignore[arg-type]
    return {e.variables[v]: mode for v, mode in e.state}


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_optimizers_update_in_place(device: DeviceSpec) -> None:
    graph = region("momentum", [], p.momentum([(64, 128), (128,)]))
    assert set(modes(graph, device).values()) == {StateMode.IN_PLACE}


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("case", ["shifted", "transposed", "live-out", "copied", "row"])
def test_no_update_in_place_where_old_values_are_still_needed(case: str, device: DeviceSpec) -> None:
    v, w = B.variable("v", F32, (64, 64)), B.variable("w", F32, (64, 64))
    outputs, assigns = {
        "shifted": ([], {"v": B.slice(B.pad(v, B.scalar_like(0, v), [1, 0], [0, 0]), [0, 0], [1, 1], (64, 64))}),
        "transposed": ([], {"v": B.transpose(B.exp(v), [1, 0])}),
        "live-out": ([v], {"v": B.exp(v)}),
        "copied": ([], {"w": v, "v": B.exp(v)}),
        "row": ([], {"v": p.softmax(v)})}[case]
    del w
    assert modes(region(case, outputs, assigns), device)["v"] is StateMode.FRESH


def test_arguments_of_an_update_are_not_restrict() -> None:
    result = compiled(region("update", [], p.momentum([(64,)])), CPU)
    updated = [b for b in result.kernels[0].program.parameters if b.mode is Mode.UPDATE]
    assert len(updated) == 4, "two variables, each read and written"
    assert OpKind.VARIABLE in {n.kind for n, _ in result.kernels[0].arguments}


def test_an_update_by_a_column_sum_is_in_place() -> None:
    """The step of a bias: its gradient is summed and applied in one kernel."""
    bias, gradient = B.variable("b", F32, (64,)), B.input("g", F32, (96, 64))
    graph = region("bias", [], {"b": B.sub(bias, B.mul(B.sum(gradient, [0]), p.const(0.1, bias)))})
    for device in (CPU, H200):
        assert modes(graph, device) == {"b": StateMode.IN_PLACE}
    check_all(graph, interpret_cpu=True, interpret_gpu=True, cuda=False)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_a_column_sum_that_reads_neighbours_is_not(device: DeviceSpec) -> None:
    v, x = B.variable("v", F32, (2048,)), B.input("x", F32, (4, 2048))
    shifted = B.slice(B.pad(v, B.scalar_like(0, v), [1], [0]), [0], [1], (2048,))
    graph = region("shift", [], {"v": B.sum(B.mul(B.broadcast(v, (4, 2048)), B.add(shifted, x)), [0])})
    assert len(compiled(graph, device).kernels) == 1
    assert modes(graph, device) == {"v": StateMode.FRESH}


def test_a_counter_that_later_kernels_read_is_updated_in_the_end() -> None:
    """Adam's step number: no new address in every call."""
    count, x = B.variable("count", F32, ()), B.input("x", F32, (64, 512))
    scaled = B.mul(B.sum(p.softmax(x), [1]), B.broadcast(count, (64,)))
    graph = region("step", [scaled], {"count": B.add(count, p.const(1.0, count))})
    for device in (CPU, H200):
        assert modes(graph, device) == {"count": StateMode.IN_PLACE}
    check_all(graph, interpret_cpu=True, interpret_gpu=True, cuda=False)


def scattered_twice(both: bool) -> TensorGraph:
    """Rows are written, and others then, in place.

    Args:
        both: one kernel reads what there is after each.
    """
    first = B.scatter(B.input("x", F32, (64, 32)), B.input("rows", DType.I32, (3,)), B.input("y", F32, (3, 32)),
                      (64, 32), Combine.SET, in_place=True)
    sums = B.sum(first, [0], keepdims=True)
    second = B.scatter(first, B.iota((1,), 0, DType.I32), sums, (64, 32), Combine.SET, in_place=True)
    return region("g", [second, B.sub(second, first) if both else B.exp(sums)])


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("both", [False, True], ids=["in-turn", "both"])
def test_scatters_update_an_input_where_nobody_needs_what_was_there(both: bool, device: DeviceSpec) -> None:
    graph = scattered_twice(both)
    built = compiled(graph, device)
    assert built.executable.updated == (() if both else ((0, 0),))
    assert len(built.buffers.copying) == 2 * both, "one that begins a chain is not in place where the chain is not"
    values = random_values(graph) | {"rows": np.array([5, 9, 63], np.int32)}
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), device.name)


def test_an_input_that_is_handed_on_is_not_updated() -> None:
    x = B.input("x", F32, (64, 32))
    assert plan_buffers(region("g", [x, B.exp(x)]), [], ("x",), (), False, 0).updated == []


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("live_out", [0, 1], ids=["before", "between"])
def test_a_scatter_writes_over_no_output(live_out: int, device: DeviceSpec) -> None:
    graph = scattered_twice(both=False)
    second = graph.outputs[0][1]
    old = second.operands[0] if live_out else second.operands[0].operands[0]
    graph = region("g", [second, old])
    values = random_values(graph) | {"rows": np.array([5, 9, 63], np.int32)}
    compare(graph, run_kernel_ir(graph, compiled(graph, device), values), *reference(graph, values), device.name)


def weights_brought_together(layers: int, width: int) -> TensorGraph:
    """Each layer multiplies by two matrices that a kernel puts side by side, which waits for nothing."""
    x = B.input("x", F32, (64, width))
    for i in range(layers):
        halves = [B.variable(f"w{i}_{half}", F32, (width, width // 2)) for half in range(2)]
        x = B.dot(x, B.concat(halves, 1), False, False)
    return region("layers", [x], {})


def test_what_waits_for_nothing_runs_when_it_is_needed() -> None:
    layers, width = 12, 1024
    result = compiled(weights_brought_together(layers, width), H200)
    weights = 4 * width * width
    assert result.executable.live_bytes < 3 * weights
    assert result.executable.arena_bytes < 3 * weights


def test_small_kernels_share_a_launch_before_they_are_needed() -> None:
    result = compiled(weights_brought_together(12, 64), H200)
    assert len(result.executable.steps) < 2 * 12


def matmuls_and_ops_between(layers: int, width: int) -> TensorGraph:
    """Each op gets what it reads from a matmul, and nobody else needs that."""
    x = B.input("x", F32, (width, width))
    for i in range(layers):
        x = B.exp(B.dot(x, B.input(f"w{i}", F32, (width, width)), False, False))
    return region("layers", [B.dot(x, x, False, False)], {})


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_kernels_write_over_operands_that_nobody_needs(device: DeviceSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(in_place, "WORTH_REUSING", 1 << 40)
        apart = compiled(matmuls_and_ops_between(4, 256), device)
    together = compiled(matmuls_and_ops_between(4, 256), device)
    assert together.executable.live_bytes == apart.executable.live_bytes == 2 * 4 * 256 * 256, "of a matmul, two"
    assert {step.args[0] == step.args[-1] for step in together.executable.steps if not isinstance(step, LibraryStep)} \
        == {True}
    shared = [b for kernel in together.kernels for b in kernel.program.parameters if b.shared]
    assert len(shared) == 2 * 4, "what is read, and what is written"


@pytest.mark.parametrize("seed", each_commit(range(4), range(12)))
def test_results_are_right_where_kernels_write_over_operands(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "WORTH_REUSING", 1)
    check_all(make_case(random.Random(3000 + seed), 24, 300).graph, interpret_gpu=True, cuda=False)


def weights(name: str, width: int) -> Node:
    return B.input(name, F32, (width, width))


def check_on(graph: TensorGraph, device: DeviceSpec) -> None:
    built, values = compiled(graph, device), random_values(graph)
    assert any(isinstance(step, LibraryStep) for step in built.executable.steps)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), device.name)


DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)


@DEVICES
@pytest.mark.parametrize("shape", [(64, 96), (48, 80), (32, 32), (3, 40, 40)], ids=str)
def test_an_update_by_a_transposed_gradient_is_in_place(shape: tuple[int, ...], device: DeviceSpec) -> None:
    """As of filters, whose gradients a library gives in another order: else each step has two copies of them."""
    last = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    gradient = B.transpose(B.input("g", F32, tuple(shape[axis] for axis in last)), last)
    v, m = B.variable("v", F32, shape), B.variable("m", F32, shape)
    moved = B.add(B.mul(m, p.const(0.9, m)), gradient)
    graph = region("update", [], {"m": moved, "v": B.sub(v, moved)})
    [kernel] = compiled(graph, device).kernels
    assert kernel.schedule.family == "transpose"
    assert modes(graph, device) == {"m": StateMode.IN_PLACE, "v": StateMode.IN_PLACE}
    check_all(graph, interpret_cpu=True, interpret_gpu=True, cuda=False)


@pytest.mark.parametrize("shape", [(32, 32), (5, 32, 32), (64, 64)], ids=str)
def test_a_variable_can_be_transposed(shape: tuple[int, ...]) -> None:
    """In place where a block writes what it alone has read before."""
    last = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    graph = region("turned", [], {"v": B.transpose(B.exp(B.variable("v", F32, shape)), last)})
    check_all(graph, interpret_cpu=True, interpret_gpu=True, cuda=False)


@DEVICES
def test_an_old_value_that_is_read_behind_a_matmul_stays(device: DeviceSpec) -> None:
    """The kernel that computes the new one does not read it."""
    v, x = B.variable("v", F32, (64, 64)), B.input("x", F32, (64, 64))
    new = B.exp(x)
    graph = region("late", [B.add(B.exp(B.dot(new, weights("w", 64))), v)], {"v": new})
    assert modes(graph, device) == {"v": StateMode.FRESH}
    check_on(graph, device)


@DEVICES
def test_an_operand_that_is_read_behind_a_matmul_stays(device: DeviceSpec) -> None:
    """A kernel in between has nothing else of its type to write over."""
    width = 128
    a = B.exp(B.mul(B.input("x", F32, (width, width)), B.constant(0.1, F32)))
    half = B.dot(a, B.input("w", F32, (width, width // 2)))
    c = B.op(OpKind.TANH, B.mul(a, B.concat([half, half], 1)))
    check_on(region("late", [B.add(B.dot(c, weights("u", width)), a)]), device)


@DEVICES
def test_what_is_copied_in_the_end_is_there_until_then(device: DeviceSpec) -> None:
    """The new value of a small variable whose old one is read late: others take no memory of it meanwhile."""
    v, x = B.variable("v", F32, (64,)), B.input("x", F32, (64, 64))
    new = B.neg(v)
    y = B.dot(B.add(x, B.broadcast(new, (64, 64))), weights("w", 64))
    y = B.dot(B.exp(B.mul(y, B.constant(0.01, F32))), weights("u", 64))
    graph = region("copied", [B.add(B.op(OpKind.TANH, y), B.broadcast(v, (64, 64)))], {"v": new})
    assert modes(graph, device) == {"v": StateMode.IN_PLACE}
    check_on(graph, device)


def test_kernels_of_equal_structure_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is asked about for each variable that it updates."""
    walked: list[Sequence[Stmt]] = []

    def counted(body: Sequence[Stmt]) -> Iterator[BufferAccess]:
        walked.append(body)
        return accesses(body)

    monkeypatch.setattr(known_accesses, "accesses", counted)
    counts = []
    for layers in (4, 8):
        walked.clear()
        shapes = [(100, 8), (7, 9000)] * (layers // 2)
        moved = {f"{name}{i}": (B.variable(f"{name}{i}", F32, shape), B.input(f"{name}{i}:0", F32, shape))
                 for i, shape in enumerate(shapes) for name in "wm"}
        plan = planned(region("g", [], {name: B.add(w, g) for name, (w, g) in moved.items()}), H200)
        assert {mode for _, mode in plan.state} == {StateMode.IN_PLACE}
        counts.append(len(walked))
    assert counts[0] == counts[1] <= 4
