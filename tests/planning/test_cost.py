"""Predicted and measured times as the planner sees them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential import patterns as p
from tests.differential.runner import compiled, keys_of, region
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.kernel_ir.nodes import AsyncCopy, LoadVector, Program
from tf_stitch.kernel_ir.walk import rewritten
from tf_stitch.planning.cost_model import ModelCost, predict, predict_us
from tf_stitch.planning.measured_cost import MeasuredCost, MeasuredTimes, measurement_key, patterns_to_measure
from tf_stitch.planning.stitch_plan import Pattern, live_out

B, F32 = p.B, DType.F32
DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)


def x(*shape: int, name: str = "x") -> Node:
    return B.input(f"{name}:0", F32, shape)


def program(device: DeviceSpec, *outputs: Node) -> Program:
    return compiled(region("cost", list(outputs)), device).kernels[0].program


@DEVICES
@given(exponent=st.integers(4, 22))
def test_more_elements_take_no_less_time(device: DeviceSpec, exponent: int) -> None:
    small, large = (program(device, B.exp(x(n))) for n in (1 << exponent, 4 << exponent))
    assert 0 < predict_us(small, device) <= predict_us(large, device) * 1.01  # curves are measured


@DEVICES
def test_one_kernel_beats_two_over_the_same_elements(device: DeviceSpec) -> None:
    whole = program(device, B.exp(B.add(x(1 << 20), x(1 << 20, name="y"))))
    parts = [program(device, B.add(x(1 << 20), x(1 << 20, name="y"))), program(device, B.exp(x(1 << 20)))]
    assert predict_us(whole, device) < sum(predict_us(part, device) for part in parts)


@DEVICES
def test_a_large_footprint_leaves_memory_cold(device: DeviceSpec) -> None:
    one = program(device, B.exp(x(1 << 16)))
    assert predict(one, device, 1 << 30).memory >= predict(one, device).memory
    assert predict(one, CPU if not device.simt else device, 0).nbytes == 2 * 4 << 16


def test_what_is_fetched_ahead_hides_the_rest() -> None:
    graph = region("g", p.layernorm_backward(x(1 << 16, 1024), x(1 << 16, 1024, name="dy"), x(1024, name="gamma"),
                                             x(1 << 16, 1, name="mean"), x(1 << 16, 1, name="rstd")))
    (ahead,) = (kernel.program for kernel in compiled(graph, H200).kernels if kernel.schedule.ahead)
    waiting = replace(ahead, body=rewritten(ahead.body, lambda s: (
        LoadVector(s.array, s.at, s.buffer, s.index, s.width) if isinstance(s, AsyncCopy) else s)))
    assert predict_us(ahead, H200) < predict_us(waiting, H200)


def test_the_best_gpu_kernels_are_near_the_bandwidth() -> None:
    prediction = predict(program(H200, p.softmax(x(131072, 1024))), H200)
    floor = prediction.nbytes / H200.profile.bandwidth[-1][1] / 1e3
    assert floor < prediction.us < 1.4 * floor


def test_a_slower_device_is_predicted_slower() -> None:
    one = program(H200, p.softmax(x(4096, 1024)))
    slow = replace(H200.profile, bandwidth=tuple((n, rate / 10) for n, rate in H200.profile.bandwidth))
    assert predict_us(one, replace(H200, profile=slow)) > 2 * predict_us(one, H200)


def model(device: DeviceSpec) -> ModelCost:
    return ModelCost(lambda pattern: compile_pattern(pattern, device).program, device)


def planned(graph: TensorGraph, times: MeasuredTimes | None = None) -> CompiledRegion:
    return compile_region(graph, *keys_of(graph), CompileOptions(CPU, measured=times))


def softmax_graph() -> TensorGraph:
    return region("softmax", [p.softmax(x(256, 512))])


def test_a_pattern_that_no_rule_takes_has_no_time() -> None:
    plan = planned(region("two", [B.sum(x(8, 16), [1]), B.exp(x(3, 5, name="y"))])).plan
    nodes = tuple(n for pattern in plan.patterns for n in pattern.nodes)
    assert model(CPU)(Pattern(nodes, nodes, plan.free)) is None
    with pytest.raises(ScheduleError):
        compile_pattern(Pattern(nodes, nodes, plan.free), CPU)


def test_measured_times_go_first_and_last_beyond_the_process(tmp_path: Path) -> None:
    pattern = planned(softmax_graph()).plan.patterns[0]
    times = MeasuredTimes(tmp_path / "cpu.json")
    cost = MeasuredCost(model(CPU), times)
    assert cost(pattern) == model(CPU)(pattern)
    times.add({measurement_key(pattern, True): 12.5})
    assert cost(pattern) == model(CPU)(pattern), "its ops are not measured: two scales"
    times.add({measurement_key(Pattern((n,), (n,), pattern.free), True): 1.0 for n in pattern.nodes})
    assert cost(pattern) == 12.5
    assert MeasuredTimes(tmp_path / "cpu.json").get(measurement_key(pattern, True)) == 12.5
    assert measurement_key(pattern, True) != measurement_key(pattern, False)


def test_two_processes_keep_each_others_times(tmp_path: Path) -> None:
    first, second = MeasuredTimes(tmp_path / "x.json"), MeasuredTimes(tmp_path / "x.json")
    first.add({"a": 1.0})
    second.add({"b": 2.0})
    again = MeasuredTimes(tmp_path / "x.json")
    assert (again.get("a"), again.get("b"), len(again)) == (1.0, 2.0, 2)


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": -1}', '{"a": "fast"}'])
def test_damaged_times_are_said_and_made_anew(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    times = MeasuredTimes(path)
    assert times.problem is not None
    assert "x.json" in times.problem
    times.add({"a": 1.0})
    assert MeasuredTimes(path).problem is None


def test_the_planner_takes_what_was_measured(tmp_path: Path) -> None:
    """A pattern that turned out slower than its halves is not chosen again."""
    graph = softmax_graph()
    plan = planned(graph).plan
    assert len(plan.patterns) == 1
    times = MeasuredTimes(tmp_path / "cpu.json")
    nodes, wanted = plan.graph.nodes(), frozenset(live_out(plan.graph))
    (pattern, parts), = patterns_to_measure(plan, users_of(nodes), wanted)
    ops = [part for part in parts if len(part.nodes) == 1]
    assert {part.nodes[0] for part in ops} == set(pattern.nodes)
    times.add({measurement_key(part, True): 1.0 for part in parts} | {measurement_key(pattern, True): 1000.0})
    assert MeasuredCost(model(CPU), times)(pattern) == 1000
    assert len(planned(graph, times).plan.patterns) > 1


def test_a_call_is_part_of_what_a_measured_kernel_costs(tmp_path: Path) -> None:
    """CPU kernels are timed without it: ops that are nearly free in a loop are not, called one by one. (The one kernel
    is measured so much slower that the tie of few kernels does not decide.)"""
    plan = planned(softmax_graph()).plan
    (pattern, parts), = patterns_to_measure(plan, users_of(plan.graph.nodes()), frozenset(live_out(plan.graph)))
    times = MeasuredTimes(tmp_path / "cpu.json")
    call = CPU.profile.launch_us
    times.add({measurement_key(part, True): call / 100 for part in parts} | {measurement_key(pattern, True): 12 * call})
    assert MeasuredCost(model(CPU), times, call_us=call)(pattern) == pytest.approx(13 * call)
    assert len(planned(softmax_graph(), times).plan.patterns) == 1
