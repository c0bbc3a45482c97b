"""Times of kernel programs, each alone, on the device that they are for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Packed
from tf_stitch.errors import BuildError
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.kernel_ir.occupancy import launch_bound
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.timed_kernel import TimedKernel
from tf_stitch.targets.registry import target_of

LARGEST = 1 << 30
"""Bytes that the buffers of a measured kernel may take: the memory is the user's."""


@dataclass(frozen=True)
class ProgramTimer:
    """Builds and times programs.

    Attributes:
        ordinal: the GPU's, or -1.
        largest: bytes that a program's buffers may have.
    """

    device: DeviceSpec
    ordinal: int
    cache: KernelCache
    largest: int = LARGEST

    def __call__(self, programs: Sequence[Program]) -> list[float]:
        """Microseconds of each program, of a CPU's in one thread and scaled by what the model says all cores gain; NaN
        for all where one is too large, and for one that gets no memory.

        Raises:
            BuildError: a compiler is missing or rejects a kernel.
        """
        device = self.device
        source, kernels = timed_kernels(programs, device)
        if any(kernel.nbytes > self.largest for kernel in kernels):
            return [math.nan] * len(kernels)
        alone = target_of(device).times(source, kernels, device, self.ordinal, self.cache)
        if not device.profile.per_core:
            return alone
        return [us * _share(program, device) for us, program in zip(alone, programs, strict=True)]


    def apart(self, programs: Sequence[Program]) -> float:
        """Microseconds of programs in launches that need nothing of each other; NaN where memory is short.

        Raises:
            BuildError: a compiler is missing or rejects a kernel, or the target has no such launches.
        """
        source, kernels = timed_kernels(programs, self.device)
        times_apart = target_of(self.device).times_apart
        if times_apart is None:
            raise BuildError(f"{self.device.target} launches nothing at the same time")
        if sum(kernel.nbytes for kernel in kernels) > self.largest:
            return math.nan
        return times_apart(source, kernels, self.device, self.ordinal, self.cache)


def timed_kernels(programs: Sequence[Program], device: DeviceSpec) -> tuple[str, list[TimedKernel]]:
    """One source for all programs, and a kernel for each, in order. Programs have work: a grid that is not empty."""
    named = [(f"stitch_{i}", program) for i, program in enumerate(programs)]
    launches = [Packed(f"launch_{i}", (i,), launch_bound([program], device)) for i, program in enumerate(programs)]
    emission = target_of(device).emission
    return emission.source(emission.launches(named, launches)), [
        TimedKernel(launch.name, p.grid, p.threads, shared_bytes(p),
                    tuple((b.dtype.value, b.size, b.mode is not Mode.WRITE) for b in p.parameters), p.cooperative)
        for launch, p in zip(launches, programs, strict=True)]


def _share(program: Program, device: DeviceSpec) -> float:
    """What part of its time in one thread a CPU kernel takes on all cores, by the model."""
    return predict_us(program, device) / predict_us(program, replace(device, processors=1))
