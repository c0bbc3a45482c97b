"""What budgets of memory would cost a region: the curve of bytes and predicted microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.compiler.budget_bytes import bytes_of, waiting_bytes
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.memory_problem import planned_values
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.config import MemoryBudget
from tf_stitch.planning.memory_program import MemorySolver, most

FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Of the activations."""
SECONDS = 1.0
"""Time limit of the program of one fraction."""


@dataclass(frozen=True)
class BudgetPoint:
    """What one budget would cost.

    Attributes:
        fraction: of the activations of the plan for the least time.
        nbytes: alive at one time, at most, as predicted.
        us: microseconds that a step takes longer, as predicted.
        kept: nothing takes more than the budget.
    """

    fraction: float
    nbytes: int
    us: float
    kept: bool


@dataclass(frozen=True)
class MemoryCurve:
    """
    Attributes:
        step_us: predicted microseconds of all kernels and calls, one after the other.
        points: the largest budget first.
    """

    step_us: float
    points: tuple[BudgetPoint, ...]


def memory_curve(kernels: KernelPlan, options: CompileOptions) -> MemoryCurve:
    """The curve of a region; without points where nothing waits to be read.

    Args:
        kernels: planned for the least time; values have places.
    """
    compiler = PatternCompiler(options.device, options.aligned, 0, options.measured, options.reuse)
    step_us = sum(compiler.exact(pattern) or 0.0 for pattern in kernels.plan.patterns)
    if not waiting_bytes(kernels):
        return MemoryCurve(step_us, ())
    solver = MemorySolver(planned_values(kernels, compiler, options.device.queued).problem, options.plan.solver)
    points = []
    for fraction in FRACTIONS:
        budget = bytes_of(MemoryBudget(fraction), kernels)
        found = solver.solve(budget, SECONDS)
        points.append(BudgetPoint(fraction, found.peak, found.us, found.peak <= most(budget)))
    return MemoryCurve(step_us, tuple(points))
