"""Facts about this machine's processors."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from functools import lru_cache
from pathlib import Path

from tf_stitch.errors import BuildError

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{MAJOR,MINOR}


def cpu_count() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


@lru_cache(maxsize=16)
def compute_capability(ordinal: int) -> str:
    """Compute capability of a CUDA device, as "90".

    Raises:
        BuildError: no CUDA driver, or no such device.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BuildError(f"no CUDA driver: {error}") from None
    device, value = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), ordinal):
        raise BuildError(f"no CUDA device {ordinal}")
    digits = []
    for attribute in (_MAJOR, _MINOR):
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            raise BuildError(f"cannot ask CUDA device {ordinal} for its compute capability")
        digits.append(str(value.value))
    return "".join(digits)


def cublas_lt_files() -> list[str]:
    """Where cuBLASLt may be: in NVIDIA's wheels, then wherever the loader looks."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None else None
    found = [str(path) for folder in folders or () for path in sorted(Path(folder).glob("*/lib/libcublasLt.so.1?"))]
    return [*found, "libcublasLt.so.12", "libcublasLt.so.13"]
