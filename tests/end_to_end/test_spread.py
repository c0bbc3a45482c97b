"""Models that are spread over processes or devices by TensorFlow: a parameter server on loopback, DTensor,
and Keras' DataParallel, which its TensorFlow backend has as a prototype."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner
from tests.end_to_end.test_process_groups import free_ports

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("how", ["server", "dtensor", "keras"])
def test_it_trains_as_in_tensorflow(how: str, forked: Runner) -> None:
    """A worker's step is in regions, and what each device does of a step of DTensor's."""
    losses = {}
    for stitch in ("", "1"):
        done = forked(PROGRAMS / "spread.py", how, ",".join(map(str, free_ports(2))), stitch=stitch)
        assert done.returncode == 0, done.stderr[-3000:]
        losses[stitch] = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(losses["1"], losses[""], rtol=1e-5)
    assert done.report is not None
    assert not done.report["fallbacks"]
    assert done.stitched("") > 0
