"""Times single CPU kernels, each in the calling thread alone."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import BuildError
from tf_stitch.ir.dtypes import DType
from tf_stitch.runtime.host_run import aligned_copy, aligned_empty
from tf_stitch.runtime.timed_kernel import TimedKernel

GROUP_NS = 1_500_000
"""A timed group of calls takes about that long."""
GROUPS = 7
"""Of which the fastest counts."""


def with_timer(source: str) -> str:
    """The source of kernels, with what times them."""
    return source + (resources.files("tf_stitch.emit") / "host_timer.c").read_text()


def time_on_host(library: Path, kernels: Sequence[TimedKernel]) -> list[float]:
    """Microseconds of processor time of each kernel in one thread, over the same memory each time.

    The least of several groups: whatever else the machine does only adds.

    Args:
        library: built from `with_timer`.

    Raises:
        BuildError: the library cannot be loaded.
    """
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise BuildError(f"cannot load {library}: {error}") from None
    loaded.tfs_time.restype = ctypes.c_int64
    loaded.tfs_time.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    return [_time(loaded, kernel) for kernel in kernels]


def _time(library: Any, kernel: TimedKernel) -> float:
    memory = [random_array(*buffer) for buffer in kernel.buffers]
    args = (ctypes.c_void_p * max(len(memory), 1))(*(m.ctypes.data for m in memory))
    function = ctypes.cast(getattr(library, kernel.symbol), ctypes.c_void_p)
    once: int = max(min(library.tfs_time(function, args, 1) for _ in range(2)), 20)
    calls = max(1, min(GROUP_NS // once, 20_000))
    least = min(int(library.tfs_time(function, args, calls)) for _ in range(GROUPS))
    return float(least) / calls / 1e3


def random_array(dtype: str, size: int, read: bool) -> NDArray[Any]:
    """Numbers from 0.5 to 1.5, small integers from 1 (some divide), or memory that is not read."""
    kind = DType(dtype)
    if not read:
        return aligned_empty((size,), kind.numpy)
    random = np.random.default_rng(size)
    if kind.is_real:
        return aligned_copy((random.random(size, np.float32) + np.float32(0.5)).astype(kind.numpy))
    return aligned_copy(random.integers(*((0, 2) if kind is DType.BOOL else (1, 1000)), size).astype(kind.numpy))
