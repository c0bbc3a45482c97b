"""What a model is converted for: processors, and the binaries that each gets."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tf_stitch.device.spec import H200, DeviceSpec, gpu_spec
from tf_stitch.errors import ConvertFlagError
from tf_stitch.runtime.cpu_flags import cpu_flags
from tf_stitch.runtime.device_profiles import device_spec

CPU_LEVELS: dict[int, str] = {0: "x86-64", 1: "x86-64-v3", 2: "x86-64-v4"} if platform.machine() == "x86_64" else \
    {0: "armv8-a" if platform.machine() == "aarch64" else "native"}
"""Level, as native/op/aot_module.h counts them -> the C compiler's -march: a baseline, AVX2, AVX-512."""


_FLAGS = {1: {"avx2", "fma", "bmi2"}, 2: {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}


def own_level() -> int:
    """The highest level of this machine's CPU."""
    flags = cpu_flags()
    level = 0
    while level + 1 in CPU_LEVELS and _FLAGS[level + 1] <= flags:
        level += 1
    return level


@dataclass(frozen=True)
class BuildTarget:
    """A kind of device that a model gets kernels for.

    Attributes:
        name: as --target has it.
        spec: that kernels are planned for.
        levels: level -> what the compiler is told. A negative one is that of PTX, which later devices take, too.
    """

    name: str
    spec: DeviceSpec
    levels: dict[int, str]

    @property
    def on_gpu(self) -> bool:
        return self.spec.queued

    @property
    def architecture(self) -> int:
        """Compute capability of a GPU, 0 of a CPU."""
        return int(self.spec.architecture) if self.on_gpu else 0

    @property
    def device_type(self) -> str:
        """TensorFlow's word."""
        return "GPU" if self.on_gpu else "CPU"


def parse_targets(names: Sequence[str], cache_dir: Path) -> list[BuildTarget]:
    """Reads --target.

    Raises:
        ConvertFlagError: one is none.
    """
    found = []
    for name in dict.fromkeys(names or ["cpu"]):
        match = re.fullmatch(r"cuda:sm_(\d{2,3})", name)
        if name == "cpu":
            found.append(BuildTarget(name, device_spec(cache_dir, None), CPU_LEVELS))
        elif match:
            spec = gpu_spec(H200.profile, match[1])
            levels = {int(match[1]): match[1], -int(match[1]): match[1]}
            found.append(BuildTarget(name, replace(spec, tf32=True, warpgroup_matmuls=False), levels))
        else:
            raise ConvertFlagError(f"--target={name} is none: cpu, cuda:sm_90 and the like, several with commas "
                                   "between")
    return found
