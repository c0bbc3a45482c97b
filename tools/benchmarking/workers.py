"""Processes that hold one case on one backend each and wait between their turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarking.machine import module_path

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = {"tf": "tensorflow", "xla": "xla", "stitch": "tf_stitch"}
"""Short names of the backends."""

Result = dict[str, Any]


class Worker:
    """A case on a backend, in a process that waits between turns.

    Args:
        case: a name of `cases.CASES`, or a model as `model_cases.ModelCase` writes it.
        backend: tensorflow, xla, tf_stitch.
        clusters: whether XLA comes by automatic clustering, as it does in TensorFlow 1 code.
        variables: more environment variables.
    """

    def __init__(self, case: str, backend: str, clusters: bool = False, variables: Mapping[str, str] | None = None
                 ) -> None:  # fmt: skip
        self._report = tempfile.TemporaryDirectory(prefix="tf_stitch_report")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_STITCH") or k == "TF_STITCH_CACHE"}
        environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": module_path(ROOT)}
        command = [sys.executable, str(ROOT / "tools" / "benchmarking" / "worker.py"), case, backend]
        if backend == "tf_stitch":
            environment |= {"TF_STITCH": "1", "TF_STITCH_REPORT": self._report.name}
            command[1:1] = ["-m", "tf_stitch"]  # the same activation, whether or not the package is installed
        if backend == "xla" and clusters:
            environment["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
        environment |= variables or {}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (as long as the process; a pipe would fill up)
        self._process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._errors)  # fmt: skip

    def run(self, steps: int) -> Result:
        """Seconds and losses of `steps` steps.

        Raises:
            RuntimeError: the process died; the message ends with its last lines.
        """
        return self._ask("run", steps)

    def profile(self, steps: int) -> Result:
        """What `kernel_counts.profiled` says of `steps` steps, and the process' peak of memory.

        Raises:
            RuntimeError: as above.
        """
        return self._ask("profile", steps)

    def _ask(self, what: str, steps: int) -> Result:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(what, steps, file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError("\n".join(self.close().splitlines()[-8:]))
        answer: Result = json.loads(line)
        return answer

    def close(self) -> str:
        """Ends the process; what it had to say on stderr."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.communicate()
        self._errors.seek(0)
        return self._errors.read()

    def report(self) -> Result | None:
        """The report of tf_stitch, once the process has ended."""
        path = Path(self._report.name) / "report.json"
        return json.loads(path.read_text()) if path.exists() else None
