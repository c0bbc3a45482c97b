"""Regions whose kernel TensorFlow makes, runs and frees while it folds constants."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.conftest import PROGRAMS, Runner


def test_other_regions_of_the_graph_go_on(forked: Runner, cache: Path) -> None:
    plain, stitched = (forked(PROGRAMS / "folded_loop.py", stitch=stitch, TF_STITCH_CACHE=str(cache),
                              TF_STITCH_MIN_REGION="1") for stitch in ("", "1"))
    assert plain.returncode == stitched.returncode == 0, stitched.stderr[-3000:]
    assert stitched.stdout == plain.stdout
    assert stitched.report is not None
    assert stitched.report["fallbacks"] == []
    assert any(region["runs"] > 0 and region["graph"] == stitched.report["graphs"][0]["graph"]
               for region in stitched.report["regions"])
