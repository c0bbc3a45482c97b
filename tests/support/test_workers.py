"""Workers run each test once, and what happens to them is reported as pytest does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = """
import os
import pytest
from tests.support.workers import run_in_workers

os.environ.setdefault("PARENT", str(os.getpid()))

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    run_in_workers(session, 2)
    return True

def noted(text):
    with open("noted", "a") as file:
        file.write(text + "\\n")

@pytest.fixture(scope="session")
def lasting():
    noted("begin")
    yield os.getpid()
    noted("end")

@pytest.fixture(scope="module")
def of_file(request):
    noted(f"open {request.path.name}")
    yield
    noted(f"close {request.path.name}")
"""
GOOD = """
import pytest
import warnings
import os

@pytest.mark.parametrize("i", range(3))
def test_good(i, lasting, of_file):
    assert lasting == os.getpid() != int(os.environ["PARENT"])

def test_skipped():
    pytest.skip("not here")

def test_warns():
    warnings.warn("look at this")
"""
BAD = """
import os
import signal

def test_wrong():
    print("said before")
    assert 1 + 1 == 3

def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def test_behind():
    pass
"""


def said_of(folder: Path, *arguments: str, **files: str) -> str:
    """What pytest says of these files."""
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *arguments, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT)}).stdout  # fmt: skip


def test_every_test_runs_once_in_a_process_of_its_file(tmp_path: Path) -> None:
    said = said_of(tmp_path, one=GOOD, two=GOOD, three=GOOD)
    assert re.search(r"12 passed, 3 skipped, 3 warnings in", said), said
    assert "not here" in said
    assert "look at this" in said
    notes = (tmp_path / "noted").read_text().splitlines()
    assert notes.count("begin") == notes.count("end") <= 2, "what is the session's is set up once in a worker"
    for name in ("one", "two", "three"):
        assert notes.count(f"open test_{name}.py") == notes.count(f"close test_{name}.py") == 1


def test_failures_and_processes_that_end_are_reported(tmp_path: Path) -> None:
    said = said_of(tmp_path, bad=BAD, good=GOOD)
    assert re.search(r"2 failed, 5 passed, 1 skipped, 1 warning in", said), said
    assert "assert (1 + 1) == 3" in said
    assert "said before" in said
    assert "the process that ran this test ended by itself (exit -9)" in said


def test_what_fails_behind_all_tests_is_reported(tmp_path: Path) -> None:
    late = """
import pytest

@pytest.fixture(scope="session")
def ends_badly():
    yield
    raise ValueError("it does not end")

def test_it(ends_badly):
    pass
"""
    said = said_of(tmp_path, late=late)
    assert re.search(r"1 failed, 1 passed in", said), said
    assert "the process that ran this test ended by itself (exit 1)" in said


def test_the_first_failure_ends_it_if_asked(tmp_path: Path) -> None:
    said = said_of(tmp_path, "-x", bad=BAD)
    assert re.search(r"1 failed in", said), said
    assert "stopping after 1 failures" in said


def test_a_module_may_not_start_tensorflows_threads(tmp_path: Path) -> None:
    """No fork has them. This one stands for TensorFlow."""
    started = """
import sys
import types

class Context:
    _context_handle = 1

sys.modules["tensorflow.python.eager.context"] = types.SimpleNamespace(context_safe=Context)

def test_nothing():
    pass
"""
    said = said_of(tmp_path, started=started)
    assert "do that in a test or a fixture" in said
