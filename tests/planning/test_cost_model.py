"""Predicted and measured times as the planner sees them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential import patterns as p
from tests.differential.runner import compiled, keys_of, region
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.kernel_ir.nodes import Array, AsyncCopy, LoadVector, Program, Space
from tf_stitch.kernel_ir.walk import rewritten
from tf_stitch.planning.cost_model import ModelCost, predict, predict_together, predict_us
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.pattern import Pattern

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
    (pattern,) = (kernel.schedule.pattern for kernel in compiled(graph, H200).kernels if kernel.schedule.ahead)
    ahead = compile_pattern(pattern, H200).program  # as planning has it: sums have one level
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


def test_kernels_of_one_launch_take_less_than_apart() -> None:
    """As long as their blocks find room: each has the shared memory of the one that takes most."""
    few, many = (program(H200, B.exp(x(rows, 256))) for rows in (64, 12000))
    alone = [predict_together([one], H200).us for one in (few, many)]
    assert alone == pytest.approx([predict_us(one, H200) for one in (few, many)])
    together = predict_together([few, many], H200).us
    assert max(alone) < together < sum(alone) - 1.0
    large = replace(few, body=(Array("room", F32, 50_000, Space.SHARED, offset=0), *few.body))
    crowded = predict_together([large, many], H200).us
    assert crowded > together + 3.0, "one block for each processor"


def model(device: DeviceSpec) -> ModelCost:
    return ModelCost(lambda pattern: compile_pattern(pattern, device).program, device)


def planned(graph: TensorGraph, times: MeasuredTimes | None = None) -> CompiledRegion:
    return compile_region(graph, *keys_of(graph), CompileOptions(CPU, measured=times))


def test_a_pattern_that_no_rule_takes_has_no_time() -> None:
    plan = planned(region("two", [B.sum(x(8, 16), [1]), B.exp(x(3, 5, name="y"))])).plan
    nodes = tuple(n for pattern in plan.patterns for n in pattern.nodes)
    assert model(CPU)(Pattern(nodes, nodes, plan.free)) is None
    with pytest.raises(ScheduleError):
        compile_pattern(Pattern(nodes, nodes, plan.free), CPU)


def test_scattered_loads_from_a_near_cache_take_time() -> None:
    """An H200's kernel of such sums of 16 terms took 237 us, what it moves 43: a library is faster, where the terms of
    a column lie apart a kernel is."""
    calls = []
    for shape, scattered in (((16, 32), False), ((32, 16), True)):
        dot = p.B.dot(x(401408, 16), p.B.input("w:0", F32, shape), transpose_b=scattered)
        calls.append(len(compiled(region("g", [p.B.exp(dot)]), H200).calls))
    assert calls == [0, 1]
