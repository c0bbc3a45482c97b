"""Bags of words: what is around them is stitched, and what has as many rows as the data say is left out, by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

LEFT_OUT = {"sparse_sum": {"Unique", "SparseSegmentSum", "ResourceGather", "ResourceScatterSub"},
            "sparse_mean": {"Unique", "SparseSegmentMean", "ResourceGather", "ResourceScatterSub"},
            "ragged_reduce_sum": {"Where", "UnsortedSegmentSum", "ResourceGather", "ResourceScatterSub"},
            "ragged_reduce_max": {"Where", "UnsortedSegmentMax", "ResourceGather", "ResourceScatterSub"},
            "strings": set()}  # fmt: skip
"""What of a step is not in a region. A pipeline's StringLookup makes words of one length: all of that step is."""
STITCHED = {"MatMul", "Tanh", "Mean", "AssignSubVariableOp"}


def graphs(done: Run, name: str) -> list[Any]:
    assert done.report is not None
    return [g for g in done.report["graphs"] if f"_{name}_" in g["graph"] and g["regions"]]


@pytest.mark.timeout(600)
def test_bags_learn_as_in_tensorflow(forked: Runner) -> None:
    plain, done = (forked(PROGRAMS / "bags.py", stitch=stitch) for stitch in ("", "1"))
    assert done.returncode == plain.returncode == 0, done.stderr[-3000:]
    want, found = (json.loads(run.stdout.splitlines()[-1]) for run in (plain, done))
    assert found.keys() == want.keys() == LEFT_OUT.keys()
    for name, losses in want.items():
        np.testing.assert_allclose(found[name], losses, rtol=1e-5, err_msg=name)
        for graph in graphs(done, name):
            inside = {n["op"] for n in graph["nodes"] if n["region"] is not None}
            assert inside >= STITCHED, (name, inside)
            outside = {n["op"]: n for n in graph["nodes"] if n["region"] is None}
            for op in LEFT_OUT[name]:
                reason = outside[op]["reason"]
                assert "has as many rows as its values say" in reason or "its size is decided by data" in reason, reason
                assert "bags.py:" in graph["sources"][outside[op]["name"]]
    assert graphs(done, "strings")
    assert all({n["region"] for n in g["nodes"] if n["op"] in {"ResourceGather", "ResourceScatterSub", *STITCHED}}
               == {g["regions"][0]} for g in graphs(done, "strings"))
