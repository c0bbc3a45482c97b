"""Ways to train that reach across layers or steps: as in TensorFlow, in as few regions as they allow."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner

REGIONS = {"accumulated": 4, "clipped": 1, "synchronized": 1}
"""Of a step. Gradients that are added up are applied in a branch."""


@pytest.mark.timeout(600)
def test_variants_train_as_in_tensorflow(forked: Runner) -> None:
    plain, done = (forked(PROGRAMS / "training_variants.py", stitch=stitch) for stitch in ("", "1"))
    assert done.returncode == plain.returncode == 0, done.stderr[-3000:]
    assert done.report is not None
    want, found = (json.loads(run.stdout.splitlines()[-1]) for run in (plain, done))
    for name, most in REGIONS.items():
        assert len(want[name]) == 50
        np.testing.assert_allclose(found[name], want[name], rtol=1e-4, err_msg=name)
        [graph] = [g for g in done.report["graphs"] if f"_{name}_" in g["graph"] and g["regions"]]
        assert len(graph["regions"]) <= most, name
