"""Programs that read and update variables: NumPy and TensorFlow agree on them, and so does a stitched process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.fuzz.variables import try_program

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(2))
def test_both_machines_mean_the_same(seed: int) -> None:
    assert try_program(seed, calls=2).wrong == ""


def test_stitched() -> None:
    """A slice of the campaign."""
    done = subprocess.run([sys.executable, "-m", "tools.fuzz.variables", "--seeds=0:8"], cwd=ROOT, timeout=280,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "'wrong': 0, " in done.stdout
    assert "'refused': 0}" in done.stdout
