"""Keras' `fit` and `evaluate` ask for the next step while the GPU computes one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Runner

pytestmark = pytest.mark.gpu


def test_nobody_waits_for_a_step(run: Runner) -> None:
    program = PROGRAMS / "fit_ahead.py"
    plain, done = run(program, stitch="", **PRECISE), run(program, stitch="strict", **PRECISE)
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    want, found = json.loads(plain.stdout.splitlines()[-1]), json.loads(done.stdout.splitlines()[-1])
    assert want["devices"] == ["device:GPU:0"]
    assert found["devices"] == ["device:CPU:0"]
    for name in ("losses", "maes"):
        np.testing.assert_allclose(found[name], want[name], rtol=1e-3, err_msg=name)
    for name, value in want["evaluated"].items():
        np.testing.assert_allclose(found["evaluated"][name], value, rtol=1e-3, err_msg=name)
