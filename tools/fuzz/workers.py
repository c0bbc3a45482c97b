"""Starts worker processes, asks them, and notices when one crashes or hangs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.forced_forms import FORMS, UNBUILT

PLAIN = "plain"
FIRST_CALLS = ("first_calls", "first_calls_again")
MODES: Mapping[str, Mapping[str, str]] = {
    PLAIN: {"TF_STITCH": "0"},
    "default": {"TF_STITCH": "1", "TF_STITCH_ASYNC": "0"},
    "strict": {"TF_STITCH": "strict"},
    "check_off": {"TF_STITCH": "1", "TF_STITCH_GUARD": "0"},
    "min_region_1": {"TF_STITCH": "1", "TF_STITCH_GUARD": "0", "TF_STITCH_MIN_REGION": "1"},
    "region_scope": {"TF_STITCH": "1", "TF_STITCH_GUARD": "0", "TF_STITCH_SCOPE": "region"},
    "py_function": {"TF_STITCH": "1", "TF_STITCH_WRAP": "py_function"},
    "starved": {"TF_STITCH": "1", "TF_STITCH_ASYNC": "0", "TF_STITCH_FIRST_STEP_SECONDS": "0.001"},
    **{form: {} for form in (*FORMS, UNBUILT)},
    **{mode: {"TF_STITCH": "1"} for mode in FIRST_CALLS},
}
"""Ways to run a program -> environment. Starved: no step waits for kernels. The last two are what users have: the
second of them finds functions that the first has built, and changes over to them by counting calls."""

_START_SECONDS = 400
"""The first worker may have to build the native libraries."""


class CrashError(Exception):
    """The process ended while it ran a program."""


class HangError(Exception):
    """No answer within the time limit."""


class Worker:
    """One process in one mode; started when it is first asked, and anew after a crash.

    Args:
        mode: of `MODES`.
        device: "cpu" or "gpu".
        cache: folder of built kernels.
        log: what the processes write.
    """

    def __init__(self, mode: str, device: str, cache: Path, log: Path) -> None:
        self.mode, self._device, self._log = mode, device, log
        own = {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}
        self._environ = own | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true", "OMP_NUM_THREADS": "1",
                               "PYTHONWARNINGS": "ignore", "PYTHONFAULTHANDLER": "1"} | MODES[mode]  # fmt: skip
        if device == "cpu":
            self._environ["CUDA_VISIBLE_DEVICES"] = "-1"
        if mode != PLAIN:
            self._environ["TF_STITCH_CACHE"] = str(cache)
        runner = ["-m", "tools.forced_forms", mode] if mode in (*FORMS, UNBUILT) else ["-m", "tf_stitch"]
        self._start_with = [] if mode == PLAIN else runner  # also where .pth files are not read
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._read = b""

    def ask(self, seconds: float, **request: Any) -> dict[str, Any]:
        """The answer.

        Raises:
            CrashError, HangError: the process is gone; the next question starts another.
        """
        fresh = self._process is None
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(time.monotonic() + seconds + (_START_SECONDS if fresh else 0))
        except (BrokenPipeError, EOFError):
            process.wait()
            self.close()
            raise CrashError(self._last_words(process.returncode)) from None
        except TimeoutError:
            process.send_signal(signal.SIGABRT)  # the fault handler writes where it hangs
            time.sleep(0.5)
            self.close()
            raise HangError(f"no answer within {seconds:g} s") from None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        os.close(self._answers)
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process, self._read = None, b""

    def _start(self) -> subprocess.Popen[bytes]:
        self._answers, theirs = os.pipe()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._start_with, "-m", "tools.fuzz.worker", str(theirs), self._device],
                stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(theirs,), env=self._environ)  # fmt: skip
        os.close(theirs)
        return self._process

    def _line(self, until: float) -> bytes:
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            chunk = os.read(self._answers, 1 << 20)
            if not chunk:
                raise EOFError
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _last_words(self, code: int) -> str:
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        tail = self._log.read_bytes()[-4000:].decode(errors="replace").splitlines()
        return "\n".join([name, *tail[-25:]])
