"""Variables that a step reads and assigns: tf.function wants every read to run, also those that a region makes."""

from __future__ import annotations

import numpy as np

from tests.end_to_end.conftest import PROGRAMS, Runner


def test_regions_read_and_assign(run: Runner) -> None:
    plain, stitched = (run(PROGRAMS / "assigned_slots.py", stitch=stitch) for stitch in ("", "1"))
    assert stitched.returncode == 0, stitched.stderr[-3000:]
    wanted, actual = ([float(x) for x in done.stdout.split()] for done in (plain, stitched))
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)
    report = stitched.report
    assert report is not None
    assert report["fallbacks"] == []
    nodes = [node for graph in report["graphs"] if graph["stitched_nodes"] for node in graph["nodes"]]
    assigns = [node for node in nodes if node["op"] == "AssignVariableOp"]
    assert len(assigns) == 25
    # Those that the step only writes are refused at once, and do not keep the others out.
    assert sum(node["region"] is not None for node in assigns) >= 12
