"""Optimizers that get the rows of a table that occur: 50 steps, bad row numbers and an empty batch, as TensorFlow has
them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner
from tests.support.tiers import each_commit

LIBRARIES = ("keras", "tf_keras", "legacy", "tf1")
CASES = [(library, index) for library in LIBRARIES for index in ("int32", "int64")]
FIRST = [("keras", "int32"), ("tf_keras", "int64"), ("legacy", "int32"), ("tf1", "int64")]
"""Each library, and each type of row numbers in both Keras and TensorFlow 1's optimizers."""


@pytest.mark.parametrize("case", each_commit(FIRST, CASES), ids="-".join)
@pytest.mark.timeout(600)
def test_optimizers_of_rows(case: tuple[str, str], forked: Runner) -> None:
    library, index = case

    def trained(stitch: str) -> dict[str, Any]:
        done = forked(PROGRAMS / "sparse_updates.py", library, index, stitch=stitch)
        assert done.returncode == 0, done.stderr[-3000:]
        if stitch:
            assert done.report is not None
            nodes = [node for graph in done.report["graphs"] for node in graph["nodes"] if graph["regions"]]
            lookup = "GatherV2" if library == "keras" else "ResourceGather"
            assert any(node["region"] is not None for node in nodes if node["op"] == lookup)
        results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return results

    plain, ours = trained(""), trained("1")
    for name, want in plain.items():
        got = ours[name]
        assert len(want["losses"]) == 50
        np.testing.assert_allclose(got["losses"], want["losses"], rtol=2e-5, err_msg=name)
        np.testing.assert_allclose(got["table"], want["table"], rtol=2e-5, atol=2e-6, err_msg=name)
        assert got["errors"] == want["errors"], name
        assert "nothing" not in want["errors"]
        assert got["empty"] == want["empty"], name


@pytest.mark.timeout(600)
def test_a_large_table_trains_at_the_cost_of_its_rows(forked: Runner) -> None:
    """A step with a table of 10 million rows takes as long as with 10 thousand. One that went through the table would
    take a hundred times as long."""
    done = forked(PROGRAMS / "large_table.py", stitch="1", CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0, done.stderr[-3000:]
    ratios = {name: large / small for name, (small, large) in json.loads(done.stdout.splitlines()[-1]).items()}
    assert len(ratios) == 3
    assert max(ratios.values()) < 10, ratios
    assert done.report is not None
    assert any(graph["regions"] for graph in done.report["graphs"])
