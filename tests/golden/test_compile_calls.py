"""What it costs to compile a region, in calls of Python functions, stays within a band of what is recorded. No clock
decides: they are the same on each machine up to a few in 10,000."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("compile_calls.json")
"""Calls by model, and the Python they were counted with: others call other functions."""
NAMES = ("aiwriter", "bi-rnn", "dyn-rnn", "logistic", "multi-interests", "perceptron", "rokid", "var-encoder",
         "word2vec", "word2vec_train")
BAND = 0.03
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_calls_of_python_functions_that_make_sources(request: pytest.FixtureRequest) -> None:
    record = json.loads(RECORD.read_text())
    update = request.config.getoption("--update-golden")
    if record["python"] != PYTHON and not update:
        pytest.skip(f"calls were recorded with Python {record['python']}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}
    done = subprocess.run([sys.executable, "-m", "tests.golden.compile_calls", *NAMES], cwd=ROOT, text=True,
                          capture_output=True, timeout=250, env=environment | {"PYTHONHASHSEED": "0"})
    assert done.returncode == 0, done.stderr[-3000:]
    calls = json.loads(done.stdout)
    if update:
        RECORD.write_text(json.dumps({"python": PYTHON, "calls": calls}, indent=2) + "\n")
        return
    assert calls.keys() == record["calls"].keys()
    outside = [f"{name}: {count} calls, {count / record['calls'][name] - 1:+.1%}" for name, count in calls.items()
               if abs(count / record["calls"][name] - 1) > BAND]
    assert not outside, "; ".join([*outside, "if that is meant, run pytest with --update-golden"])
