"""What a branch or a loop that does not run needs to be equal differs, and results are TensorFlow's."""

from __future__ import annotations

import json

import numpy as np

from tests.end_to_end.conftest import PROGRAMS, Runner


def test_sizes_that_differ_when_nothing_needs_them_equal(forked: Runner) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "-1", "TF_STITCH_GUARD": "0"}
    plain, stitched = (forked(PROGRAMS / "sizes_in_branches.py", 1, stitch=stitch, **environ) for stitch in ("", "1"))
    assert plain.returncode == stitched.returncode == 0, stitched.stderr[-3000:]
    wanted, got = json.loads(plain.stdout), json.loads(stitched.stdout)
    assert len(wanted) == 6
    for call, results in wanted.items():
        for x, y in zip(results, got[call], strict=True):
            np.testing.assert_allclose(np.array(y), np.array(x), rtol=1e-5, err_msg=call)
