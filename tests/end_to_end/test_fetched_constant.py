"""What a fetched constant waits for runs."""

from __future__ import annotations

import json

import numpy as np

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Runner


def test_updates_behind_which_a_constant_is_fetched(forked: Runner) -> None:
    program = PROGRAMS / "fetched_constant.py"
    plain = forked(program, stitch="", **PRECISE)
    done = forked(program, stitch="strict", TF_STITCH_ASYNC="0", **PRECISE)
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    want, found = (json.loads(out.stdout.splitlines()[-1]) for out in (plain, done))
    assert 0 < want[0] < want[1] < want[2]
    np.testing.assert_allclose(found, want, rtol=1e-5)
