"""Facts about this machine's processors."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache

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
