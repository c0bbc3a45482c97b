"""Which C compiler built the kernels of a cache.

A kernel's key has its compiler's version, so that kernels of two compilers never serve in one process. Where there is
no compiler, the one that last used the cache stands in for it: a cache that an image was built with serves where the
compiler was left out.
"""

from __future__ import annotations

import contextlib
from functools import lru_cache
from pathlib import Path

from tf_stitch.atomic_file import read_verified, write_verified
from tf_stitch.errors import DamagedFileError

_NAME = "host_compiler.txt"


@lru_cache(maxsize=64)
def record_compiler(kernels: Path, version: str) -> None:
    """Records in a folder of kernels what its compiler says of itself. A folder that cannot be written stays as it is.
    """
    if recorded_compiler(kernels) != version:
        with contextlib.suppress(OSError):
            write_verified(kernels / _NAME, version.encode())


def recorded_compiler(kernels: Path) -> str:
    """What the compiler said of itself that last used a folder of kernels; "" if none is on record, or the record is
    damaged."""
    try:
        return read_verified(kernels / _NAME).decode()
    except (OSError, DamagedFileError, UnicodeDecodeError):
        return ""
