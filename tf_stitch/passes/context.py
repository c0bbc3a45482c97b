"""What passes ask before they rewrite a graph."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.libraries.call import Library
from tf_stitch.planning.part import PatternTimes
from tf_stitch.schedule.reuse import Reuse


@dataclass(frozen=True)
class PassContext:
    """What a region is compiled for.

    Attributes:
        times: predicted microseconds of patterns on the device.
        libraries: whose calls regions of the device may hold.
        reuse: how far kernels may reuse values.
        aligned: every buffer starts at a multiple of 16 bytes.
        matmul_kernels: kernels of ours are asked for, of matmuls with what is around them.
    """

    device: DeviceSpec
    times: PatternTimes
    libraries: tuple[Library, ...]
    reuse: Reuse
    aligned: bool
    matmul_kernels: bool = False
