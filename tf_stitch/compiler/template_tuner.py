"""The fastest template of a pattern, by trying (FusionStitching section 5.3, Algorithm 3: KernelEvalUpdate)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias, TypeVar

from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.template_kernels import possible_kernels
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import BuildError
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.measured_cost import measurement_key, saves
from tf_stitch.planning.tuned_templates import TunedTemplate

MOST_TRIED = 32
"""Templates of a pattern that are timed."""
BATCH = 8
"""Kernels that are built and timed together; whether to go on is asked between batches."""
ROUNDS = 5
"""Times that the default and the best are timed in turns before the default is replaced."""

T = TypeVar("T")
TimePrograms: TypeAlias = Callable[[Sequence[Program]], list[float]]
"""Microseconds of programs, NaN for those that could not be timed; raises BuildError."""


@dataclass(frozen=True)
class Tuning:
    """What was found for one pattern.

    Attributes:
        default, best: the families' kernel, and the fastest; the same where none is faster for sure.
        times: microseconds of all kernels that were timed, by template.
        failed: templates that could not be built or timed, and why.
        possible: templates that there are.
    """

    default: LoweredKernel
    best: LoweredKernel
    default_us: float
    best_us: float
    times: dict[str, float]
    failed: dict[str, str]
    possible: int

    def record(self) -> TunedTemplate:
        """To be kept."""
        return TunedTemplate(text_of(self.default), text_of(self.best), round(self.default_us, 3),
                             round(self.best_us, 3), len(self.times), self.possible)


def text_of(kernel: LoweredKernel) -> str:
    return str(template_of(kernel.schedule))


def tune(default: LoweredKernel, device: DeviceSpec, aligned: bool, time: TimePrograms, most: int = MOST_TRIED,
         go_on: Callable[[], bool] = lambda: True) -> Tuning | None:
    """Times templates of a pattern, and the winner against the families' once more.

    Args:
        default: the pattern's kernel by the families.
        most: templates that are timed.
        go_on: whether time is left.

    Returns:
        None if time ran out before the comparison.

    Raises:
        BuildError: the default could not be built or timed.
    """
    kernels = list(possible_kernels(default, device, aligned))
    times: dict[str, float] = {}
    failed: dict[str, str] = {}
    chosen = worth_trying(kernels, device, most)
    for batch in batches(chosen):
        if not go_on():
            break
        _time_all(batch, time, times, failed)
        if text_of(default) in failed:
            raise BuildError(f"{text_of(default)}: {failed[text_of(default)]}")
    known = [kernel for kernel in chosen if text_of(kernel) in times]
    if not known or not go_on():
        return None
    best = min(known, key=lambda kernel: times[text_of(kernel)])
    default_us = best_us = times[text_of(default)]
    if best is not default:
        default_us, best_us = _in_turns(default, best, time)
        if not saves(default_us, best_us):
            best, best_us = default, default_us
    return Tuning(default, best, default_us, best_us, times, failed, len(kernels))


def rule_kernels(kernels: Iterable[LoweredKernel], device: DeviceSpec, aligned: bool) -> dict[str, LoweredKernel]:
    """What can be tuned of compiled kernels: each pattern's kernel by the families, by its `measurement_key`. Joined
    kernels are left out: their groups do not run alone."""
    found: dict[str, LoweredKernel] = {}
    for kernel in kernels:
        pattern = kernel.schedule.pattern
        key = measurement_key(pattern, aligned)
        if key not in found and kernel.schedule.mapping.grid and not kernel.schedule.groups:
            found[key] = compile_pattern(pattern, device, aligned)
    return found


def batches(kernels: Sequence[LoweredKernel]) -> list[Sequence[LoweredKernel]]:
    """What is built together."""
    return [kernels[first:first + BATCH] for first in range(0, len(kernels), BATCH)]


def worth_trying(kernels: Sequence[LoweredKernel], device: DeviceSpec, most: int) -> list[LoweredKernel]:
    """The first, half of `most` that the model thinks fastest, and others at equal distances: the model's errors are
    what tuning is for."""
    first, *others = kernels
    return [first, *sampled(sorted(others, key=lambda kernel: predict_us(kernel.program, device)), most - 1, most // 2)]


def sampled(ranked: Sequence[T], most: int, trusted: int) -> list[T]:
    """The first `trusted`, and others at equal distances, `most` in all."""
    rest, spread = ranked[trusted:], most - trusted
    if len(ranked) <= most:
        return list(ranked)
    return [*ranked[:trusted], *(rest[i * len(rest) // spread] for i in range(spread))]


def _time_all(kernels: Sequence[LoweredKernel], time: TimePrograms, times: dict[str, float], failed: dict[str, str]
              ) -> None:
    """Adds the times of kernels. Where one breaks its batch, each is timed by itself."""
    try:
        found = time([kernel.program for kernel in kernels])
    except BuildError as error:
        if len(kernels) == 1:
            failed[text_of(kernels[0])] = error.message
            return
        for kernel in kernels:
            _time_all([kernel], time, times, failed)
        return
    for kernel, us in zip(kernels, found, strict=True):
        if math.isfinite(us) and us > 0:
            times[text_of(kernel)] = us
        else:
            failed[text_of(kernel)] = "not timed: its buffers are too large"


def _in_turns(default: LoweredKernel, best: LoweredKernel, time: TimePrograms) -> tuple[float, float]:
    pairs = [time([default.program, best.program]) for _ in range(ROUNDS)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
