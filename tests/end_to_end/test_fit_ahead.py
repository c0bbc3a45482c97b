"""Keras' `fit` and `evaluate` ask for the next step without asking a device about this one."""

from __future__ import annotations

import json

import numpy as np

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Runner


def test_nobody_asks_for_a_step(forked: Runner) -> None:
    program = PROGRAMS / "fit_ahead.py"
    plain = forked(program, stitch="", **PRECISE)
    done = forked(program, stitch="strict", TF_STITCH_ASYNC="0", **PRECISE)
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    want, found = json.loads(plain.stdout.splitlines()[-1]), json.loads(done.stdout.splitlines()[-1])
    assert want["asked"] == 7 * 8
    assert found["asked"] == 0
    for name in ("losses", "maes"):
        np.testing.assert_allclose(found[name], want[name], rtol=1e-3, err_msg=name)
    for name, value in want["evaluated"].items():
        np.testing.assert_allclose(found["evaluated"][name], value, rtol=1e-3, err_msg=name)
