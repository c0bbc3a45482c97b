"""Folders of files that will be loaded as code, where nobody else may put any."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Access:
    """What a folder may be used for.

    Attributes:
        reading: what lies there is this user's, or root's.
        problem: why it may not be read, or cannot be written; "" if both are fine.
    """

    reading: bool
    problem: str


def make_private(folder: Path) -> Access:
    """Creates a folder for this user alone, unless it exists."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        return Access(False, error.strerror or str(error))
    if status.st_uid not in (os.getuid(), 0):
        return Access(False, "belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o022:
        return Access(False, "can be written by other users")
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Access(True, "")
    except OSError as error:
        return Access(True, error.strerror or str(error))


@cache
def temporary_folder(purpose: str) -> Path:
    """An empty folder for this process, removed at its end; always the same for one purpose."""
    folder = Path(tempfile.mkdtemp(prefix="tf_stitch_"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
