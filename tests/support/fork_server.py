"""Runs programs in processes that are forked off one which has TensorFlow and Keras imported already: that takes five
seconds of processor time each, more than most programs need for themselves.

What runs so is a process of its own, with its own environment, arguments, output and exit, but for three things: it was
not started anew (tests of activation and of leaks have to be), what TensorFlow reads of the environment when it is
imported is the server's (see AT_IMPORT), and a program that has come to its end leaves its modules and threads to the
system (but for WHOLE_END).

    python -P tests/support/fork_server.py SOCKET
    python -P tests/support/fork_server.py SOCKET program.py ARGUMENTS

The second is a command that runs a program in a server: for what starts commands itself.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PRELOADED = ("tensorflow", "keras", "tf_stitch.plugin.activation", "tf_stitch.plugin.session")
"""Of tf_stitch this is the code alone: TF_STITCH is read, and what it says done, where a program begins. Its session is
imported with the first graph, and takes as long as many a program then."""
NOT_PRELOADED = ("sklearn", "matplotlib")
"""What Keras would import (see LEFT_OUT of tests/support/start.py): programs that use it do so themselves."""
AT_IMPORT = ("LD_", "PYTHON", "MALLOC", "OMP_", "KMP_", "TF_ENABLE_", "TF_USE_", "KERAS_", "XLA_", "TF_XLA_")
"""Prefixes of variables that are read before a program begins; PYTHONPATH is taken over."""
WHOLE_END = {"TESTS_PROGRAM_END": "whole"}
"""What the environment of a program has that ends as any other: for tests of what happens then."""
RARELY = (100_000, 20, 20)
"""When garbage is collected, as in tests/conftest.py: a twentieth of a program's processor time goes there."""
MODULE = Path("-m")
START_SECONDS = 120
COMMAND_SECONDS = 900


_spent = [0.0]


def processor_seconds() -> float:
    """Of all programs that this process has had run by servers, and has waited for."""
    return sum(_spent)


class ForkServer:
    """Starts programs. Threads may share it, and processes that are forked off the one that has made it.

    Args:
        folder: for the socket and what the server says; ends with `close`.
        environment: the server's.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._path, self._log, self._maker = folder / "socket", folder / "server.log", os.getpid()
        self._command = (sys.executable, "-P", __file__, str(self._path))
        with self._log.open("w") as log:
            self._server = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self._environment)

    @property
    def command(self) -> tuple[str, ...]:
        """Before a program and its arguments: runs them here."""
        self._wait_until_it_is_up()
        return self._command

    def _wait_until_it_is_up(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not self._path.exists():
            assert os.getpid() != self._maker or self._server.poll() is None, self._log.read_text()
            assert time.monotonic() < end, f"the fork server does not come up: {self._log.read_text()}"
            time.sleep(0.05)

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Whether a program would find at its start what it asks for."""
        names = {*environment, *self._environment} - {"PYTHONPATH"}
        return all(environment.get(name) == self._environment.get(name) for name in names if name.startswith(AT_IMPORT))

    def run(self, command: Sequence[str], environment: Mapping[str, str], folder: Path, timeout: float) -> int:
        """The exit status of `program.py ARGUMENTS` or `-m module ARGUMENTS`, negative for a signal. What it writes
        goes to `stdout` and `stderr` in `folder`.

        Raises:
            TimeoutError: it was ended.
        """
        return self.start(command, environment, folder).wait(timeout)

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Forked:
        """As run, which waits for its end."""
        self._wait_until_it_is_up()
        return Forked(self._path, command, environment, folder)

    def completed(self, program: Path | str, arguments: Sequence[object], environment: Mapping[str, str], folder: Path,
                  timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """As run, with what the program wrote.

        Args:
            program: its file, its text, or MODULE, whose name is the first argument.
        """
        if isinstance(program, str):
            (folder / "program.py").write_text(program)
            program = folder / "program.py"
        command = [str(program), *map(str, arguments)]
        status = self.run(command, environment, folder, timeout)
        stdout, stderr = ((folder / name).read_text() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(command, status, stdout, stderr)

    def close(self) -> None:
        """Ends the server; programs that run stay."""
        self._server.terminate()
        self._server.wait()


class Forked:
    """A program that runs in a server. Arguments are those of ForkServer.run, `server` is the path of its socket."""

    def __init__(self, server: Path, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        request = {"command": list(command), "environment": dict(environment), "cwd": os.getcwd(),
                   "start": str(_start_file(environment)), "out": str(folder / "stdout"), "err": str(folder / "stderr")}
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(START_SECONDS)
        self._connection.connect(str(server))
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        self._replies = self._connection.makefile()
        self.pid = int(self._replies.readline())

    def wait(self, timeout: float) -> int:
        """Its exit status, negative for a signal.

        Raises:
            TimeoutError: it was ended.
        """
        self._connection.settimeout(timeout)
        with self._connection, self._replies:
            try:
                status, seconds = self._replies.readline().split()
            except TimeoutError:
                os.kill(self.pid, signal.SIGKILL)
                raise
        _spent.append(float(seconds))
        return int(status)


def _start_file(environment: Mapping[str, str]) -> Path | str:
    """The module that Python would run at start."""
    files = (Path(folder, "sitecustomize.py") for folder in environment.get("PYTHONPATH", "").split(os.pathsep))
    return next((file for file in files if file.exists()), "")


def _serve(path: str) -> dict[str, Any]:
    """Forks for every request; returns in the processes that are to run one, with the request."""
    sys.modules.update(dict.fromkeys(NOT_PRELOADED))  # type: ignore[arg-type]  # an import of None raises ImportError
    for module in PRELOADED:
        importlib.import_module(module)
    for module in NOT_PRELOADED:
        del sys.modules[module]
    _leave_the_start_to_programs()
    gc.freeze()  # programs' collections leave alone what they share with this process
    gc.set_threshold(*RARELY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a program is its handler
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen()
    os.rename(f"{path}.new", path)
    while True:
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request: dict[str, Any] = json.loads(connection.makefile().readline())
        pid = os.fork()
        if not pid:
            connection.close()
            return request
        connection.sendall(f"{pid}\n".encode())
        _, status, usage = os.wait4(pid, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)} {usage.ru_utime + usage.ru_stime}\n".encode())
        os._exit(0)


def _leave_the_start_to_programs() -> None:
    """Takes back what importing tf_stitch has done: it waits for TensorFlow, and for the end of the process."""
    sys.modules["tf_stitch.plugin.at_exit"].callbacks.pop_all()
    del sys.modules["tf_stitch.plugin.autoload"]


def _become(request: Mapping[str, Any]) -> None:
    """Runs the program in this process, as its main module."""
    for name, number, flags in (("out", 1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
                                ("err", 2, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        file = os.open(request[name], flags)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    program, *arguments = request["command"]
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    first = request["cwd"] if program == "-m" else str(Path(program).parent)
    sys.path[:0] = [first, *filter(None, folders)]
    if request["start"]:
        exec(compile(Path(request["start"]).read_text(), request["start"], "exec"), {})
    if program == "-m":
        name, *arguments = arguments
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        program = spec.origin
    else:
        spec = None
    sys.argv = [program, *arguments]
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=program, __spec__=spec, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    try:
        exec(compile(Path(program).read_bytes(), program, "exec"), main.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def _end() -> None:
    """Ends this process behind a program, with what it has registered for the end, and without taking down what
    TensorFlow has imported: that takes a fifth of a second."""
    if not WHOLE_END.items() <= os.environ.items():
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _run_as_command(server: str, command: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        status = Forked(Path(server), command, os.environ, Path(folder)).wait(COMMAND_SECONDS)
        sys.stdout.write(Path(folder, "stdout").read_text())
        sys.stderr.write(Path(folder, "stderr").read_text())
    return status if status >= 0 else 128 - status  # as of a shell


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.exit(_run_as_command(sys.argv[1], sys.argv[2:]))
    _become(_serve(sys.argv[1]))
    _end()
