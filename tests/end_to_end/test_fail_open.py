"""What cannot be rewritten runs as TensorFlow made it, wherever the rewriting stops."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner


@pytest.mark.parametrize("unroll", ["0", "1"])
def test_results_are_tensorflows_wherever_the_rewriting_stops(forked: Runner, unroll: str) -> None:
    done = forked(PROGRAMS / "fails_open.py", stitch="1", TF_STITCH_UNROLL=unroll)
    assert done.returncode == 0, done.stderr[-3000:]
    stages = json.loads(done.stdout.splitlines()[-1])
    assert len(stages) > 10
    assert {name: found for name, found in stages.items() if found != {"same": True, "reached": True}} == {}
    assert done.report is not None
    planted = sum(f["count"] for f in done.report["fallbacks"] if "planted" in f["reason"])
    assert planted >= len(stages)
