"""Builds that a compiler refused are remembered beside the libraries: no later process spends minutes on failing again.

A file's name says TensorFlow, sources and flags (it is the library's own); its content says which compiler it was.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from tf_stitch.atomic_file import read_verified, write_verified
from tf_stitch.errors import DamagedFileError, NativeError

SUFFIX = ".failed"


class LastingError(NativeError):
    """A build that would fail again: the compiler rejects the sources, or what it made of them."""


def remember(folder: Path, key: str, compiler: str, error: LastingError) -> None:
    """Where nothing can be written, the next process finds out by itself."""
    record = {"compiler": _identity(compiler), "when": time.strftime("%F %H:%M"), "reason": error.message}
    with contextlib.suppress(OSError):
        write_verified(folder / (key + SUFFIX), json.dumps(record).encode())


def forget(folder: Path, key: str) -> None:
    """It was built after all."""
    with contextlib.suppress(OSError):
        (folder / (key + SUFFIX)).unlink(missing_ok=True)


def recall(folder: Path, key: str, compiler: str) -> LastingError | None:
    """The error of a build by this very compiler, in one line; None if it is worth a try."""
    path = folder / (key + SUFFIX)
    try:
        record = json.loads(read_verified(path))
    except (OSError, DamagedFileError):
        return None
    if record["compiler"] != _identity(compiler):
        return None
    return LastingError(f"{first_line(record['reason'])} (failed on {record['when']}; not tried again until compiler, "
                        f"TensorFlow or tf_stitch change, or {path} is removed)")


def first_line(reason: str) -> str:
    """The part of a compiler's message that fits into a line: what it is about, and the first error."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return " ".join(lines[:2])


def _identity(compiler: str) -> list[str | int]:
    """Another compiler, or an upgraded one, differs in this."""
    path = Path(compiler).resolve()
    state = path.stat()
    return [str(path), state.st_size, state.st_mtime_ns]
