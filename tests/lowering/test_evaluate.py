"""Chains in which each op needs the one before at several places are kernels of a size that somebody can build; of a
padded value a GPU reads the nearest element inside, by whole vectors, where most is inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import (
    check_all,
    compare,
    compiled,
    random_values,
    reference,
    region,
    run_host,
    run_kernel_ir,
)
from tests.support.whole_patterns import whole
from tf_stitch.compiler.compile_pattern import compile_pattern, first_schedule
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import TooManyCopiesError
from tf_stitch.families.registry import lower
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, linearize
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.lowering import evaluate
from tf_stitch.lowering.evaluate import MultiIndex
from tf_stitch.planning.pattern import Pattern

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


def windows(low: tuple[int, ...], high: tuple[int, ...], stride: int, images: tuple[int, ...] = (2, 8, 7, 8)) -> Node:
    """The largest elements of windows of 3 x 3 in padded images."""
    x = B.input("x:0", DType.F32, images)
    padded = B.pad(x, B.constant(-np.inf, DType.F32), (0, *low, 0), (0, *high, 0))
    counts = [(d - 3) // stride + 1 for d in padded.type.dims[1:3]]
    pieces = (B.slice(padded, (0, i, j, 0), (1, stride, stride, 1), (images[0], *counts, images[3]))
              for i in range(3) for j in range(3))
    return reduce(B.maximum, pieces)


@pytest.mark.parametrize(("low", "high", "stride"), [
    ((1, 1), (1, 1), 1), ((0, 1), (1, 0), 2), ((2, 0), (0, 3), 1), ((0, 0), (3, 2), 2)])
def test_windows(low: tuple[int, ...], high: tuple[int, ...], stride: int) -> None:
    graph = region("g", [windows(low, high, stride)])
    check_all(graph, interpret_cpu=True, interpret_gpu=True, cuda=False)


def test_neither_branches_nor_single_loads() -> None:
    built = compiled(region("g", [windows((1, 1), (1, 1), 1, (32, 56, 56, 64))]), H200)
    found = list(statements(built.kernels[0].program.body))
    assert not [s for s in found if isinstance(s, k.If)]
    assert sum(isinstance(s, k.LoadVector) for s in found) == 9


def test_what_is_surely_inside_is_not_asked_for() -> None:
    """Windows of 2 in steps of 2 never reach what is padded behind."""
    x = B.input("x:0", DType.F32, (32, 56, 64))
    padded = B.pad(x, B.constant(0, DType.F32), (0, 0, 0), (0, 1, 0))
    graph = region("g", [B.slice(padded, (0, 0, 0), (1, 2, 1), (32, 28, 64))])
    built = compiled(graph, H200)
    assert "InRange" not in repr(built.kernels[0].program.body)


def test_little_of_a_large_tensor_is_not_read_where_it_is_not() -> None:
    x = B.input("x:0", DType.F32, (4, 8))
    graph = region("g", [B.exp(B.pad(x, B.constant(0, DType.F32), (3, 0), (93, 0)))])
    check_all(graph, random_values(graph), interpret_gpu=True, cuda=False)
    found = statements(compiled(graph, H200).kernels[0].program.body)
    assert any(isinstance(s, k.If) for s in found)


@DEVICES
def test_places_are_worked_out_of_staged_values_alone(device: DeviceSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row whose exponentials are staged, and of which `steps` other values are computed in the phase behind."""

    def asked(steps: int) -> int:
        count = 0

        def counted(index: MultiIndex, dims: Sequence[int]) -> Index:
            nonlocal count
            count += 1
            return linearize(index, dims)

        value = row = B.exp(B.input("x:0", DType.F32, (16, COLUMNS)))
        total = B.sum(row, [1], True)
        for _ in range(steps):
            value = B.mul(value, total)
        monkeypatch.setattr(evaluate, "linearize", counted)
        assert PatternCompiler(device, True).compile(whole(value)).schedule.staged
        return count

    assert asked(2) == asked(7)


def beside(axis: int, *counts: int, across: int = 48) -> Node:
    """Matrices side by side, or below each other."""
    shapes = [(across, count) if axis else (count, across) for count in counts]
    return B.concat([B.input(f"x{i}:0", DType.BF16, shape) for i, shape in enumerate(shapes)], axis)


def widths(program: k.Program) -> list[int]:
    """Elements of one load of each buffer that is read."""
    loads = {s.buffer: s.width for s in statements(program.body) if isinstance(s, k.LoadVector)}
    return [loads.get(b.name, 1) for b in program.buffers if b.mode is k.Mode.READ]


SIDE_BY_SIDE: dict[str, tuple[Callable[[], Node], list[int]]] = {
    "columns": (lambda: beside(1, 16, 8, 40, across=4096), [8, 8, 8]),
    "two": (lambda: beside(1, 32, 32, across=4096), [8, 8]),
    "rows": (lambda: beside(0, 2001, 3001, 99), [8, 8, 8]),
    "odd columns": (lambda: beside(1, 15, 9, 40, across=4096), [1, 1, 8]),
}


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_what_is_side_by_side_is_read_by_vectors(name: str) -> None:
    """Where a part begins at a whole vector one branch chooses for all its lanes."""
    made, expected = SIDE_BY_SIDE[name]
    [kernel] = compiled(region("beside", [B.neg(made())]), H200).kernels
    verify_program(kernel.program)
    assert widths(kernel.program) == expected


@pytest.mark.parametrize(("axis", "counts", "expected"), [
    (1, (16, 8, 40), [4, 4, 4]), (0, (7, 3, 2), [4, 4, 4]), (1, (15, 9, 40), [1, 1, 4])])
def test_sums_of_what_is_side_by_side(axis: int, counts: tuple[int, ...], expected: list[int]) -> None:
    wide = B.cast(beside(axis, *counts), DType.F32)
    graph = region("beside", [wide, B.sum(wide, [0])])
    check_all(graph)
    [kernel] = compiled(graph, H200).kernels
    assert widths(kernel.program) == expected
