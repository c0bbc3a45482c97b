"""Folders of files that will be loaded as code, where nobody else may put any."""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO


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
    """Creates a folder for this user alone, unless it exists.

    Nobody else may be able to put another folder in its place, either: each parent is this user's or root's and closed
    to all others, or sticky as /tmp is. Members of a parent's group are trusted: on many systems it is the user's own.
    """
    folder = folder.resolve()
    try:
        for path in (*reversed(folder.parents), folder):
            path.mkdir(mode=0o700, exist_ok=True)
        problem = _who_else(folder, 0o022) or next(filter(None, map(_parent_problem, folder.parents)), "")
    except OSError as error:
        return Access(False, error.strerror or str(error))
    if problem:
        return Access(False, problem)
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Access(True, "")
    except OSError as error:
        return Access(True, error.strerror or str(error))


def _parent_problem(folder: Path) -> str:
    problem = _who_else(folder, 0 if folder.stat().st_mode & stat.S_ISVTX else 0o002)
    return f"its parent {folder} {problem}" if problem else ""


def _who_else(folder: Path, writing: int) -> str:
    """Why others decide what a folder holds; "" if they do not. `writing`: modes by which they would."""
    status = folder.stat()
    if status.st_uid not in (os.getuid(), 0):
        return "belongs to another user"
    return "can be written by other users" if stat.S_IMODE(status.st_mode) & writing else ""


def check_own(folder: Path) -> None:
    """
    Raises:
        PermissionError: this is no folder of this user, in which nobody else writes, but a link, or somebody else's.
        OSError: it is not there.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise PermissionError(errno.EPERM, "is a link, or others write there", str(folder))


def open_lock(path: Path) -> IO[bytes]:
    """A file to lock, which is made unless it is there. It is never what a link names, and nothing in it is changed.

    Raises:
        OSError: it cannot be opened, is a link, or is no file of this user's alone.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    file = os.fdopen(handle, "r+b", buffering=0)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_nlink > 1:
        file.close()
        raise PermissionError(errno.EPERM, "is no file of this user's alone", str(path))
    return file


@cache
def temporary_folder(purpose: str) -> Path:
    """An empty folder for this process, removed at its end; always the same for one purpose."""
    folder = Path(tempfile.mkdtemp(prefix="tf_stitch_"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
