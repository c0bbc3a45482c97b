"""Runs compilers, and tells what they refuse from what they lack."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

from tf_stitch import child_process
from tf_stitch.config import environment_with

_ERROR_IN_A_SOURCE = re.compile(r"^[^\s:][^:\n]*:\d+:(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
"""file:line:column: error: what. All other errors are about the compiler itself, or the machine."""
_OF_THE_LINKER = re.compile("undefined (?:reference|symbol)")
_OF_THE_SYSTEM = frozenset(os.strerror(number) for number in errno.errorcode)
_beside = ContextVar("beside", default=False)
_NICENESS = 10
"""Of compilers that nobody waits for."""


@contextlib.contextmanager
def beside_the_program() -> Iterator[None]:
    """Nobody waits for what this context builds inside: its compilers leave the processors to whoever wants them."""
    token = _beside.set(True)
    try:
        yield
    finally:
        _beside.reset(token)


def is_beside_the_program() -> bool:
    """Whether nobody waits for what is built in this context."""
    return _beside.get()


def run_compiler(command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None,
                 folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """As child_process.run: what it says in English, so that `refuses_the_source` understands it.

    Raises:
        subprocess.TimeoutExpired: it did not end within `seconds`, and was killed.
        OSError: it cannot be started.
    """
    english = {**(environment_with({}) if environment is None else environment), "LC_ALL": "C"}
    return child_process.run(command, seconds, english, folder, niceness=_NICENESS if is_beside_the_program() else 0)


def refuses_the_source(run: subprocess.CompletedProcess[str]) -> bool:
    """Whether a compiler, a linker or a loader failed for what it was given, so that it would again. All else may pass:
    it was killed, or lacked memory, processes, files or a place for them; there is no list of all words for that."""
    errors = [said[1] for said in _ERROR_IN_A_SOURCE.finditer(run.stderr)
              if not any(said[1].endswith(text) for text in _OF_THE_SYSTEM)]
    return run.returncode > 0 and bool(errors or _OF_THE_LINKER.search(run.stderr))
