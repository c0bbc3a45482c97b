"""What compute-sanitizer and pytest print, as figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.sanitize_gpu import RAW, SUITES, found, verdict

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
PASSED = "......\nSKIPPED [1] x.py:3: no reason\n94 passed, 1 skipped, 3 deselected in 81.20s (0:01:21)\n"


def test_a_clean_run() -> None:
    assert found(CLEAN, PASSED) == {"errors": 0, "tests": "94 passed, 1 skipped, 3 deselected"}


def test_races_are_counted() -> None:
    log = "========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)\n"
    assert found(log, PASSED)["errors"] == 2


@pytest.mark.parametrize(("log", "said", "errors", "tests"), [
    ("========= ERROR SUMMARY: 1 error\n", "==== 1 failed, 2 passed in 3.00s ====\n", 1, "1 failed, 2 passed"),
    ("", "Device not supported", None, None), (CLEAN, "killed", 0, None)])  # fmt: skip
def test_a_run_that_says_nothing_is_not_clean(log: str, said: str, errors: int | None, tests: str | None) -> None:
    result = found(log, said)
    assert (result["errors"], result["tests"]) == (errors, tests)
    assert result["said"]


def test_failed_tests_are_in_the_verdict() -> None:
    results = {"memcheck": found(CLEAN, PASSED), "racecheck": found(CLEAN, "==== 1 failed, 2 passed in 3.00s ====\n"),
               "synccheck": found("", "Device not supported")}
    assert verdict(results) == ("memcheck 0 errors, racecheck 0 errors (1 failed, 2 passed), "
                                "synccheck did not end (no tests)")


def test_the_tests_of_suites_are_there() -> None:
    assert set(RAW) == set(SUITES)
    named = SUITES["shared_blocks"]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "gpu", *named],
                          cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(named)} tests collected" in done.stdout
