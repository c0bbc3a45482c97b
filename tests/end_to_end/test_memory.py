"""Peak memory of a train step that is one region, against TensorFlow's own."""

from __future__ import annotations

import json
from pathlib import Path

import tensorflow as tf

from tests.end_to_end.conftest import PROGRAMS, Runner

CALLS = 32
"""Enough for the profitability check to have timed both forms."""
SETTLED = 1.05
"""What the whole run may take at most, by what its last call takes."""
MIB = 1 << 20


def test_a_region_takes_no_more_memory_than_its_nodes(run: Runner, cache: Path) -> None:
    options = {"TF_STITCH_SCOPE": "region", "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_STITCH_CACHE": str(cache)}
    plain, stitched = (run(PROGRAMS / "peak_memory.py", CALLS, stitch=stitch, **options) for stitch in ("", "1"))
    assert plain.returncode == stitched.returncode == 0, stitched.stderr[-3000:]
    assert stitched.report is not None
    [region] = stitched.report["regions"]
    assert region["runs"] + region["preferred_fallback_runs"] == CALLS
    assert region["shadow_runs"] == 0, "TensorFlow's ops would update copies of the variables, beside these"
    [build] = stitched.report["builds"]
    assert 0 < build["live_bytes"] <= build["arena_bytes"] <= 1.02 * build["live_bytes"]
    [wanted, peaks] = (json.loads(done.stdout)["peaks"] for done in (plain, stitched))
    print(f"MiB: {max(wanted) / MIB:.1f} by TensorFlow, {max(peaks) / MIB:.1f} stitched, "
          f"arena {build['arena_bytes'] / MIB:.1f} of at least {build['live_bytes'] / MIB:.1f}")
    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    assert max(peaks) <= max(wanted)
    assert max(peaks) <= SETTLED * peaks[-1], "no call takes the memory of two forms of a step"
    graphs = region["cuda_graphs"]
    if on_gpu:
        assert graphs["failures"] == 0, graphs["error"]
        assert graphs["launches"] > 0
        assert graphs["instances"] <= 4
    else:
        assert graphs is None
