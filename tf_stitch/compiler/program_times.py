"""Times of kernel programs, each alone, on the device that they are for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.runtime.device_run import time_on_device
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.runtime.timed_kernel import timed_kernels

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
        if device.is_gpu:
            return time_on_device(build_cuda(source, device.architecture, self.cache), kernels, self.ordinal)
        alone = time_on_host(build_host(with_timer(source), device.architecture, self.cache), kernels)
        return [us * _share(program, device) for us, program in zip(alone, programs, strict=True)]


def _share(program: Program, device: DeviceSpec) -> float:
    """What part of its time in one thread a CPU kernel takes on all cores, by the model."""
    return predict_us(program, device) / predict_us(program, replace(device, processors=1))
