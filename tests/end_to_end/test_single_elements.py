"""What a library's call reads lies in memory, be it a single element that any kernel could make anew."""

from __future__ import annotations

from tests.end_to_end.conftest import PROGRAMS, Runner


def test_matmuls_of_single_elements(forked: Runner) -> None:
    done = forked(PROGRAMS / "single_elements.py", stitch="strict", TF_STITCH_MIN_REGION="1", TF_STITCH_GUARD="0",
                  CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["15.0"] * 3
    assert done.report is not None
    assert done.report["fallbacks"] == []
    assert all(region["runs"] for region in done.report["regions"])
