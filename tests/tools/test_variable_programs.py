"""Programs that read and update variables: NumPy and TensorFlow agree on them, and so does a stitched process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.fork_server import MODULE, ForkServer
from tools.fuzz.variables import try_program


@pytest.mark.parametrize("seed", range(2))
def test_both_machines_mean_the_same(seed: int) -> None:
    assert try_program(seed, calls=2).wrong == ""


def test_stitched(fork_server: ForkServer, tmp_path: Path) -> None:
    """A slice of the campaign."""
    done = fork_server.completed(MODULE, ["tools.fuzz.variables", "--seeds=0:8"], os.environ, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "'wrong': 0, " in done.stdout
    assert "'refused': 0}" in done.stdout
