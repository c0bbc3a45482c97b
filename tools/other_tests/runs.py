"""Runs test files of somebody else's suite, a process for some files and a mode; keeps what becomes of each test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.benchmark.machine import module_path
from tools.forced_forms import FORMS
from tools.other_tests.recorder import outcomes_of

MODES: Mapping[str, Mapping[str, str]] = {
    "plain": {"TF_STITCH": "0"},
    "default": {"TF_STITCH": "1", "TF_STITCH_ASYNC": "0"},
    "everything": {"TF_STITCH": "1", "TF_STITCH_GUARD": "0", "TF_STITCH_MIN_REGION": "1"},
    **{form: {"TF_STITCH_MIN_REGION": "1"} for form in FORMS},
}
"""Ways to run a suite -> environment. Forms are those of tools.forced_forms, which has an environment of its own."""

_MOST_PROCESSES = 20
"""For one batch of files: a test that ends the process costs one."""


@dataclass(frozen=True)
class Outcome:
    """What became of one test: passed, failed, skipped, hung or crashed; and what it said."""

    outcome: str
    said: str


def run_files(suite: Path, files: Sequence[str], mode: str, state: Path, seconds: float, options: Sequence[str] = (),
              ) -> dict[str, dict[str, Outcome]]:  # fmt: skip
    """Outcomes of the tests of each file; what the state folder has is not run again. A test in which the process ends
    or hangs is counted as such, and the next process goes on after it.

    Args:
        suite: a source tree's root, in which pytest runs.
        files: run in one process; or one test's id.
        seconds: that one test may take.
        options: more of pytest's.
    """
    folder = state / mode
    folder.mkdir(parents=True, exist_ok=True)
    done = {file: outcomes_of(folder, file).with_suffix(".done") for file in files}
    for _ in range(_MOST_PROCESSES):
        left = [file for file in files if not done[file].exists()]
        if not left:
            break
        log = outcomes_of(folder, left[0]).with_suffix(".log")
        ended = log.with_suffix(".ended")  # a process whose test hangs ends with 1, too
        ended.unlink(missing_ok=True)
        code = _pytest(suite, left, mode, folder, log, seconds, [f"--ended={ended}", *options])
        if code in (0, 1, 5) and ended.exists():  # all ran: passed, some failed, none left
            for file in left:
                done[file].write_text(str(code))
        elif code in (2, 3, 4):
            raise SystemExit(f"pytest ended with {code}; {log} says why")
    return {file: _read(outcomes_of(folder, file)) for file in files}


def _pytest(suite: Path, files: Sequence[str], mode: str, outcomes: Path, log: Path, seconds: float,
            options: Sequence[str]) -> int:  # fmt: skip
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TF_STITCH")} | MODES[mode]
    environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow",
                "PYTHONPATH": module_path(Path(__file__).resolve().parents[2])}  # fmt: skip
    if mode != "plain" and "TF_STITCH_CACHE" in os.environ:
        environ["TF_STITCH_CACHE"] = os.environ["TF_STITCH_CACHE"]
    start_with = ["-m", "tools.forced_forms", mode] if mode in FORMS else []
    command = [sys.executable, *start_with, "-m", "pytest", "-q", "-p", "tools.other_tests.recorder",
               "-p", "no:cacheprovider", f"--outcomes={outcomes}", f"--timeout={seconds:g}", "--timeout-method=thread",
               "--continue-on-collection-errors", *options, *files]  # fmt: skip
    with log.open("wb") as out:
        return subprocess.run(command, cwd=suite, env=environ, stdout=out, stderr=out, check=False).returncode


def _read(path: Path) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for line in map(json.loads, path.read_text().splitlines() if path.exists() else []):
        if "outcome" in line:
            if found[line["test"]].outcome != "failed":  # an error in its teardown comes after its own
                found[line["test"]] = Outcome(line["outcome"], line["said"])
        else:
            found[line["test"]] = Outcome("ended the process", "")
    return found
