"""What budgets would cost, and what they cost."""

from __future__ import annotations

from itertools import pairwise

from tests.compiler.test_recomputed_values import kernels_apart, live, there_and_back
from tests.differential.runner import compiled
from tf_stitch.compiler.memory_curve import FRACTIONS, memory_curve
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import CPU


def test_a_smaller_budget_costs_more() -> None:
    graph = there_and_back(summed=True)
    kernels = kernels_apart(graph, CPU)
    curve = memory_curve(kernels, CompileOptions(CPU))
    points = curve.points
    assert [point.fraction for point in points] == list(FRACTIONS)
    assert (points[0].nbytes, points[0].us, points[0].kept) == (live(kernels), 0.0, True)
    assert all(a.nbytes >= b.nbytes and a.us <= b.us for a, b in pairwise(points))
    assert 0 < points[-1].us < curve.step_us
    half = next(point for point in points if point.fraction == 0.5)
    assert half.kept
    assert abs(half.nbytes - live(kernels_apart(graph, CPU, MemoryBudget(0.5)))) <= 0.03 * half.nbytes


def test_what_hands_nothing_over_has_no_curve() -> None:
    assert memory_curve(kernels_apart(there_and_back(1), CPU), CompileOptions(CPU)).points == ()


def test_the_curve_of_a_plan_under_a_budget_is_that_of_the_fastest() -> None:
    graph = there_and_back(summed=True)
    kernels = kernels_apart(graph, CPU, MemoryBudget(0.5))
    assert kernels.unlimited is not None
    assert live(kernels.unlimited) > live(kernels)
    region = compiled(graph, CPU)
    assert region.curve.points[0].nbytes == region.buffers.live_bytes
    assert region.curve.points[0].us == 0.0
