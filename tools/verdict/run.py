"""A run of a program that goes on when it is told to, so that two runs can take turns."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tools.benchmark.machine import module_path
from tools.verdict.row import step_ms

ROOT = Path(__file__).resolve().parents[2]


class Run:
    """A process of one program.

    Args:
        program: one of NAMES.
        cache: None runs TensorFlow alone.
        wait: kernels are waited for (TF_STITCH_ASYNC=0).
    """

    def __init__(self, program: str, cache: Path | None, wait: bool = False) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}
        environment |= {"PYTHONPATH": module_path(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "tools.verdict.programs", f"--verdict_program={program}"]
        if cache is not None:
            environment |= {"TF_STITCH": "1", "TF_STITCH_CACHE": str(cache)}
            environment |= {"TF_STITCH_ASYNC": "0"} if wait else {}
            command[1:2] = ["-m", "tf_stitch", "-m"]
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (__exit__ closes it)
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=self._said, text=True, cwd=ROOT)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._said.close()

    def steps(self, seconds: float) -> float:
        """Runs steps for this many seconds, before other programs where this user may ask for that; the milliseconds of
        one.

        Raises:
            ValueError: the program has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._first():
            self._process.stdin.write(f"{seconds}\n")
            self._process.stdin.flush()
            return step_ms(self._process.stdout.readline())

    @contextlib.contextmanager
    def _first(self) -> Iterator[None]:
        """All threads go before those of other programs, for as long as steps run: others lose seconds, and not the
        minutes that all runs take."""
        self._schedule(os.SCHED_RR, 1)
        try:
            yield
        finally:
            self._schedule(os.SCHED_OTHER, 0)

    def _schedule(self, policy: int, priority: int) -> None:
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            with contextlib.suppress(PermissionError, ProcessLookupError):  # not root; a thread that has ended
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))

    def end(self) -> str:
        """The line at exit, "" if there is none.

        Raises:
            subprocess.CalledProcessError: the program failed.
        """
        self._process.communicate()
        if self._process.returncode:
            raise subprocess.CalledProcessError(self._process.returncode, self._process.args)
        self._said.seek(0)
        lines = [line.strip() for line in self._said if line.startswith("[tf_stitch]")]
        return lines[-1] if lines else ""
