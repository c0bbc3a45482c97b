"""Facts about this machine's processors."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
from functools import lru_cache
from pathlib import Path

from tf_stitch.device.default_profile import DriverFacts
from tf_stitch.errors import BuildError

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{MAJOR,MINOR}
_PROCESSORS, _CLOCK_KHZ, _MEMORY_KHZ, _BUS_BITS, _CACHE_BYTES, _SHARED_BYTES = 16, 13, 36, 37, 38, 97
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _CLOCK_RATE, _MEMORY_CLOCK_RATE, _GLOBAL_MEMORY_BUS_WIDTH, _L2_CACHE_SIZE,
_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN."""


def cpu_count() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


@lru_cache(maxsize=16)
def compute_capability(ordinal: int) -> str:
    """Compute capability of a CUDA device, as "90".

    Raises:
        BuildError: no CUDA driver, or no such device.
    """
    driver, device = _cuda_device(ordinal)
    value, digits = ctypes.c_int(), []
    for attribute in (_MAJOR, _MINOR):
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            raise BuildError(f"cannot ask CUDA device {ordinal} for its compute capability")
        digits.append(str(value.value))
    return "".join(digits)


def cublas_lt_files() -> list[str]:
    """Where cuBLASLt may be: in NVIDIA's wheels, then wherever the loader looks."""
    return [*_in_wheels("libcublasLt.so.1?"), "libcublasLt.so.12", "libcublasLt.so.13"]


def cudnn_files() -> list[str]:
    """Where cuDNN may be, as cublas_lt_files."""
    return [*_in_wheels("libcudnn.so.9"), "libcudnn.so.9"]


def nccl_files() -> list[str]:
    """Where NCCL may be, as cublas_lt_files."""
    return [*_in_wheels("libnccl.so.2"), "libnccl.so.2"]


def _in_wheels(name: str) -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None else None
    return [str(path) for folder in folders or () for path in sorted(Path(folder).glob(f"*/lib/{name}"))]


@lru_cache(maxsize=16)
def gpu_name(ordinal: int) -> str:
    """A CUDA device's name, as "NVIDIA H200".

    Raises:
        BuildError: no CUDA driver, or no such device.
    """
    driver, device = _cuda_device(ordinal)
    text = ctypes.create_string_buffer(256)
    if driver.cuDeviceGetName(text, len(text), device):
        raise BuildError(f"cannot ask CUDA device {ordinal} for its name")
    return text.value.decode()


@lru_cache(maxsize=16)
def driver_facts(ordinal: int) -> DriverFacts:
    """What the driver says of a CUDA device.

    Raises:
        BuildError: no CUDA driver, or no such device.
    """
    driver, device = _cuda_device(ordinal)
    value = ctypes.c_int()
    said: list[int] = []
    for attribute in (_PROCESSORS, _CLOCK_KHZ, _MEMORY_KHZ, _BUS_BITS, _CACHE_BYTES, _SHARED_BYTES):
        failed = driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        said.append(0 if failed else value.value)
    processors, clock, memory_clock, bus, cache, shared = said
    gbps = 2 * memory_clock * bus / 8 / 1e6  # two bits of each line in a cycle
    return DriverFacts(processors, clock / 1e3, gbps, cache, shared)


@lru_cache(maxsize=64)
def reach_each_other(one: int, other: int) -> bool:
    """Whether two CUDA devices can read each other's memory; False where there is no such device."""
    try:
        (driver, first), (_, second) = _cuda_device(one), _cuda_device(other)
    except BuildError:
        return False
    can = ctypes.c_int()
    return all(driver.cuDeviceCanAccessPeer(ctypes.byref(can), *pair) == 0 and can.value == 1
               for pair in ((first, second), (second, first)))


def _cuda_device(ordinal: int) -> tuple[ctypes.CDLL, ctypes.c_int]:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BuildError(f"no CUDA driver: {error}") from None
    device = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), ordinal):
        raise BuildError(f"no CUDA device {ordinal}")
    return driver, device


def cpu_name() -> str:
    """The processor's name as the kernel gives it, or the machine's kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def cache_bytes() -> int:
    """Bytes of the largest cache of the first core; 1 MiB where the kernel does not say."""
    return max(_cache_sizes(), default=1 << 20)


def first_cache_bytes() -> int:
    """Bytes of the smallest one; 32 KiB where the kernel does not say."""
    return min(_cache_sizes(), default=1 << 15)


def _cache_sizes() -> list[int]:
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        if text[:-1].isdigit() and text[-1] in "KM":
            sizes.append(int(text[:-1]) << (10 if text[-1] == "K" else 20))
    return sizes
