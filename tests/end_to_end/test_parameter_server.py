"""Training over a parameter server and workers: each process stitches what runs there, and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner

pytestmark = pytest.mark.timeout(300)


def test_two_workers_one_of_them_stitched(run: Runner) -> None:
    done = run(PROGRAMS / "parameter_server.py", TF_STITCH_GUARD="0")
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout)
    np.testing.assert_allclose(results["losses"], results["alone"], rtol=1e-5)
    assert list(results["stitched"]) == ["worker0"]
    assert results["stitched"]["worker0"] > 0
    assert done.stitched("reach") > 0
    assert done.reasons() == ""
