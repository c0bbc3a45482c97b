"""The list of targets. Another one is a module beside cpu.py and cuda.py, and its name here."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.targets.cpu import CPU_TARGET
from tf_stitch.targets.cuda import CUDA_TARGET
from tf_stitch.targets.target import Target

TARGETS: tuple[Target, ...] = (CPU_TARGET, CUDA_TARGET)


def target_of(device: DeviceSpec) -> Target:
    """The target that a device is of."""
    return next(target for target in TARGETS if target.name == device.target)
