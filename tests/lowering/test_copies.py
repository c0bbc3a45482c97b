"""Chains in which each op needs the one before at several places: kernels of a size that somebody can build."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_host, run_kernel_ir
from tf_stitch.compiler.compile_pattern import compile_pattern, first_schedule
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import TooManyCopiesError
from tf_stitch.families.registry import lower
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.planning.stitch_plan import Pattern

B, COLUMNS = p.B, 32
DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)


def part(x: Node, start: int, count: int) -> Node:
    return B.slice(x, (0, start), (1, 1), (x.type.dims[0], count))


def rolled(x: Node, step: int) -> Node:
    by = step % 7 + 1
    return B.add(x, B.concat([part(x, by, COLUMNS - by), part(x, 0, by)], 1))


def running_sum(x: Node, step: int) -> Node:
    by = 1 << step % 4
    return B.add(x, B.pad(part(x, 0, COLUMNS - by), B.constant(0, DType.F32), (0, by), (0, 0)))


def chain(step: Callable[[Node, int], Node], steps: int) -> TensorGraph:
    x = B.input("x:0", DType.F32, (16, COLUMNS))
    for i in range(steps):
        x = B.mul(step(x, i), B.constant(0.5, DType.F32))
    return region("chain", [x])


@DEVICES
@pytest.mark.parametrize("step", [rolled, running_sum])
def test_long_chains(step: Callable[[Node, int], Node], device: DeviceSpec) -> None:
    graph = chain(step, 12)
    made = compiled(graph, device, solver="greedy")
    assert len(made.source) < 200_000
    values = random_values(graph)
    got = run_kernel_ir(graph, made, values) if device.simt else run_host(graph, made, values)
    compare(graph, got, *reference(graph, values), step.__name__)


@DEVICES
def test_one_kernel_is_refused_at_once(device: DeviceSpec) -> None:
    """By whichever schedule it would compute as much."""
    graph = chain(rolled, 14)
    nodes = tuple(node for node in graph.nodes() if node.operands)
    pattern = Pattern(nodes, (nodes[-1],), frozenset())
    schedule = first_schedule(pattern, device)
    assert schedule is not None
    for refused in (lambda: lower(schedule), lambda: compile_pattern(pattern, device)):
        with pytest.raises(TooManyCopiesError, match="too many places"):
            refused()
