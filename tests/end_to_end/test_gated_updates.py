"""Updates in loops and branches happen as often as TensorFlow's, whatever of an iteration a region reads."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner

PROGRAM = PROGRAMS / "gated_updates.py"


@pytest.mark.parametrize("settings", [{}, {"TF_STITCH_UNROLL": "0", "TF_STITCH_LOOP_OP": "0"}])
def test_as_often_as_in_tensorflow(forked: Runner, settings: dict[str, str]) -> None:
    plain = forked(PROGRAM, stitch="")
    done = forked(PROGRAM, TF_STITCH_GUARD="0", TF_STITCH_MIN_REGION="1", **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.reasons() == ""
    wanted, found = json.loads(plain.stdout), json.loads(done.stdout)
    assert len(wanted) > 5
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
    assert done.stitched("") > 0
