"""Keras under its own DataParallel on two logical CPUs, where Keras runs on TensorFlow: as without tf_stitch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

pytestmark = pytest.mark.timeout(300)


def trained(run: Runner, stitch: str) -> tuple[Run, dict[str, Any]]:
    done = run(PROGRAMS / "data_parallel.py", stitch=stitch)
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(said["losses"]) == 20
    return done, said


def test_losses_are_tensorflows_and_the_step_is_stitched(forked: Runner) -> None:
    """Keras' TensorFlow backend distributes nothing: all variables are on one device (docs/distribution.md)."""
    _, want = trained(forked, "")
    done, found = trained(forked, "1")
    np.testing.assert_allclose(found["losses"], want["losses"], rtol=1e-5)
    assert (found["replicas"], found["held_by"]) == (want["replicas"], want["held_by"])
    assert found["replicas"] == 2
    assert len(found["held_by"]) == 1, "say in docs/distribution.md that Keras distributes now"
    assert done.stitched("multi_step") > 100
    assert done.reasons() == ""
