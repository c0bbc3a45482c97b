"""Processes that hold one case on one backend each and wait between their turns."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.benchmark.machine import module_path

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = {"tf": "tensorflow", "xla": "xla", "stitch": "tf_stitch"}
"""Short names of the backends."""

ABLATIONS = {"mapping": {"TF_STITCH_REUSE": "mapping"}, "hierarchy": {"TF_STITCH_REUSE": "hierarchy"}}
"""tf_stitch without some of its mechanisms (AStitch, Table 4), as backends."""

CLUSTERS = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"}
"""XLA by automatic clustering, as it comes in TensorFlow 1 code."""

Result = dict[str, Any]


class Worker:
    """A program of this folder on a backend, in a process that answers line by line (see `serve`).

    Args:
        program: its module's name, or another file; the process gets `arguments`.
        backend: tensorflow, xla, tf_stitch.
        variables: environment variables. TF_STITCH_... of the caller go on to the process, so that what tf_stitch does
            can be varied; TF_STITCH itself follows the backend.
    """

    def __init__(self, program: str, *arguments: object, backend: str, variables: Mapping[str, str] | None = None
                 ) -> None:  # fmt: skip
        self._report = tempfile.TemporaryDirectory(prefix="tf_stitch_report")
        environment = {k: v for k, v in os.environ.items() if k not in ("TF_STITCH", "TF_STITCH_REPORT")}
        # Several processes share the GPU: none may take all of its memory.
        environment |= {"TF_CPP_MIN_LOG_LEVEL": "3",
                        # The scripts import what lies beside them.
                        "PYTHONPATH": os.pathsep.join([module_path(ROOT), str(ROOT / "models" / "scripts")]),
                        "TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # fmt: skip
        run = [program] if program.endswith(".py") else ["-m", f"tools.benchmark.{program}"]
        command = [sys.executable, *run, *map(str, arguments)]
        if backend == "tf_stitch":
            environment |= {"TF_STITCH": "1", "TF_STITCH_REPORT": self._report.name}
            environment.setdefault("TF_STITCH_ASYNC", "0")  # what is timed is stitched
            command[1:1] = ["-m", "tf_stitch"]  # the same activation, whether or not the package is installed
        environment |= variables or {}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (as long as the process; a pipe would fill up)
        self._process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._errors)  # fmt: skip
        self._ready = False

    def wait(self, limit: float | None = None) -> None:
        """Waits until the program is ready to answer. Errors as in `ask`."""
        if not self._ready:
            self._answer(limit)
            self._ready = True

    def ask(self, *words: object, limit: float | None = None) -> Result:
        """The answer to a line.

        Raises:
            TimeoutError: there was none within `limit` seconds; the process is ended.
            RuntimeError: the program failed; the message is its error, or the last lines of a process that died.
        """
        self.wait(limit)
        assert self._process.stdin is not None
        try:
            print(*words, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._death() from None
        return self._answer(limit)

    def _answer(self, limit: float | None) -> Result:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], limit)[0]:
            self._process.kill()
            self.close()
            raise TimeoutError(f"no answer within {limit:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._death()
        answer: Result = json.loads(line)
        if "error" in answer:
            self.close()
            raise RuntimeError(answer["error"])
        return answer

    def _death(self) -> RuntimeError:
        return RuntimeError("\n".join(self.close().splitlines()[-8:]))

    def close(self) -> str:
        """Ends the process; what it had to say on stderr."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.communicate()
        self._errors.seek(0)
        return self._errors.read()

    def said(self) -> list[str]:
        """Ends the process; the last line of tf_stitch, if it said anything, without where its report is."""
        text = self.close().replace(f"; {self._report.name}/report.json", "")
        return [line for line in text.splitlines() if line.startswith("[tf_stitch]")][-1:]

    def report(self) -> Result | None:
        """The report of tf_stitch, once the process has ended."""
        path = Path(self._report.name) / "report.json"
        return json.loads(path.read_text()) if path.exists() else None


def serve(start: Callable[[], Callable[..., Result]]) -> None:
    """What a worker's process does: says that it is ready, then answers each line with JSON.

    Args:
        start: makes the function that answers; it gets the line's words.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    answer = start()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        try:
            found = answer(*line.split())
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {brief(str(error))}"}
        print(json.dumps(found), file=answers, flush=True)


def brief(message: str) -> str:
    """The first line that says something; TensorFlow begins with "Graph execution error:", an empty line, and where the
    node was defined."""
    lines = [line.strip() for line in message.splitlines()]
    said = [line for line in lines if line and not line.endswith(":") and not line.startswith(("File ", "Detected at"))]
    return said[0] if said else message


class _Refused:
    """An import hook."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self._package:
            raise ImportError(f"{name} is not to be imported")


def refuse(package: str) -> None:
    """From now on this process cannot import a package."""
    sys.meta_path.insert(0, _Refused(package))
