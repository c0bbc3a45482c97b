"""The one way in which tf_stitch starts other programs.

Each runs in a session of its own and in an empty folder of its own, unless its caller names another: in the folder that
the user happens to be in, another user may have put a file that the program would load. Each ends, with all that it
started, when its time is over, when who waits for it is interrupted, and with this process, however that ends: a shell
beside it reads from a pipe whose other end this process alone has, and kills the group when that closes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

_SHELL = "/bin/sh"
_SUPERVISED = """exec 3<&0 0</dev/null
(read -r line <&3; kill -s KILL 0) > /dev/null 2>&1 &
watch=$!
"$@" 3<&-
code=$?
{ kill -s KILL $watch; wait $watch; } 2> /dev/null
exit $code"""
"""Runs its arguments. Standard input is the pipe; a shell that reads it needs no program of its own."""
_AT_THE_END = 'read -r line; exec "$@"'
_BY_A_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a program."""

_lock = threading.Lock()
_running: set[subprocess.Popen[str]] = set()
_pipes: set[int] = set()
"""Ends of pipes that close with this process."""


def run(command: Sequence[str], seconds: float | None = None, environment: Mapping[str, str] | None = None,
        folder: Path | None = None, captured: bool = True, niceness: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end.

    Args:
        seconds: time limit; None: as long as it takes.
        environment: its variables; None: those of this process.
        folder: where it runs; None: in an empty one, which is removed.
        captured: what it prints is in the result; else it goes where this process prints.
        niceness: of the program and what it starts, unless this process has more.

    Raises:
        subprocess.TimeoutExpired: it did not end within `seconds`, and was killed.
        OSError: it cannot be started.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    output = subprocess.PIPE if captured else None
    with _pipe() as end, contextlib.ExitStack() as stack:
        where = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="tf_stitch_"))
        with _lock:  # end_children kills it, or comes before it
            process = subprocess.Popen([_SHELL, "-c", _SUPERVISED, "sh", *command], stdin=end, stdout=output,
                                       stderr=output, text=True, errors="replace", env=environment, cwd=where,
                                       start_new_session=True)
            _running.add(process)
        if niceness:
            with contextlib.suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PGRP, process.pid, niceness)
        try:
            said, errors = process.communicate(timeout=seconds)
            return subprocess.CompletedProcess(command, _code(process.returncode), said, errors)
        except subprocess.TimeoutExpired as error:
            raise subprocess.TimeoutExpired(command, error.timeout) from None
        finally:
            with _lock:
                _running.discard(process)
            _kill(process)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def _code(returned: int) -> int:
    """As of a process without a shell between: negative if a signal ended it."""
    by = returned - _BY_A_SIGNAL
    return -by if by in set(map(int, signal.valid_signals())) else returned


@contextlib.contextmanager
def run_at_the_end(command: Sequence[str]) -> Iterator[None]:
    """Has a command run at the end of the context, or of this process inside it: who is killed cannot clean up.

    Raises:
        OSError: it cannot be started.
    """
    with contextlib.ExitStack() as stack, _pipe() as end:  # which closes before the command is waited for
        watch = subprocess.Popen([_SHELL, "-c", _AT_THE_END, "sh", *command], stdin=end, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, cwd="/", start_new_session=True)
        stack.callback(watch.wait)
        yield


@contextlib.contextmanager
def _pipe() -> Iterator[int]:
    """The end to read from of a pipe whose other end closes with the context, and with this process. A forked child
    does not hold it open."""
    end, other = os.pipe()
    with _lock:
        _pipes.add(other)
    try:
        yield end
    finally:
        with _lock:
            ours = other in _pipes
            _pipes.discard(other)
        if ours:
            os.close(other)
        os.close(end)


def end_children() -> None:
    """Kills all that `run` runs; who waits for one finds it killed."""
    with _lock:
        for process in _running:
            _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kills a program that has not been waited for, and what it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def find_program(names: Iterable[str]) -> str | None:
    """The path of the first of these programs that there is. One that PATH has relative to the working folder, where
    another user may have put it, does not count."""
    return next((path for name in names if (path := shutil.which(name)) is not None and os.path.isabs(path)), None)


def python_code(code: str) -> list[str]:
    """A command that runs Python code which imports what this process can, and nothing from the folder that it, or the
    program, is in: a file there may have the name of any module."""
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {import_path()!r}\n{code}"]


def import_path() -> list[str]:
    """Folders of this process's modules without the program's own, but with those of TensorFlow and tf_stitch."""
    entries = [os.path.abspath(entry) for entry in sys.path if entry]
    found = [entry for entry in entries if entry not in _own_folders()]
    needed = [os.path.dirname(os.path.dirname(file)) for name in ("tensorflow", "tf_stitch")
              if (file := getattr(sys.modules.get(name), "__file__", None))]
    return list(dict.fromkeys([*found, *needed]))


def _own_folders() -> set[str]:
    """Where the program lies, and where it runs."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    own = {os.path.dirname(os.path.abspath(main))} if main else set()
    if sys.path and not sys.flags.isolated and not getattr(sys.flags, "safe_path", False):
        own.add(os.path.abspath(sys.path[0]))
    with contextlib.suppress(OSError):  # the folder is gone
        own.add(os.getcwd())
    return own


def program_under_tf_stitch(program: Sequence[str]) -> list[str]:
    """A command that runs a program as `python -m tf_stitch program...` does, but for what Python would import from the
    working folder before it is the program's turn."""
    start = ("import sys\n"
             "if not getattr(sys.flags, 'safe_path', False): sys.path[0] = sys.path[-1]\n"  # its own folder follows
             f"sys.path.append({str(Path(__file__).parents[1])!r})\n"
             "from tf_stitch.__main__ import main\n"
             "main()")
    return [sys.executable, "-c", start, *program]


def _forget() -> None:
    """A forked child has none of its parent's children, and does not keep them alive."""
    global _lock
    _lock = threading.Lock()
    _running.clear()
    for pipe in _pipes:
        with contextlib.suppress(OSError):
            os.close(pipe)
    _pipes.clear()


os.register_at_fork(after_in_child=_forget)
