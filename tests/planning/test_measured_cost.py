"""Measured times as the planner sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import patterns as p
from tests.differential.runner import keys_of, region
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.planning.cost_model import ModelCost
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.measured_cost import MeasuredCost, MeasuredTimes, measurement_key, patterns_to_measure
from tf_stitch.planning.pattern import Pattern

B, F32 = p.B, DType.F32


def x(*shape: int, name: str = "x") -> Node:
    return B.input(f"{name}:0", F32, shape)


def model(device: DeviceSpec) -> ModelCost:
    return ModelCost(lambda pattern: compile_pattern(pattern, device).program, device)


def planned(graph: TensorGraph, times: MeasuredTimes | None = None) -> CompiledRegion:
    return compile_region(graph, *keys_of(graph), CompileOptions(CPU, measured=times))


def softmax_graph() -> TensorGraph:
    return region("softmax", [p.softmax(x(256, 512))])


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
