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


@cache
def temporary_folder(purpose: str) -> Path:
    """An empty folder for this process, removed at its end; always the same for one purpose."""
    folder = Path(tempfile.mkdtemp(prefix="tf_stitch_"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
