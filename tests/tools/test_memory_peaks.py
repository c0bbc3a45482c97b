"""Rows of peak memory, and their page."""

from __future__ import annotations

import json
from pathlib import Path

from tools.benchmark.memory_rows import HEADER, MIB, cells, page, row

SAID = {"before": 2 * MIB, "peaks": [9 * MIB, *[6 * MIB] * 7], "seconds": [4.0, *[0.25] * 7], "loss": 1.0,
        "by_call": True}
REPORT = {
    "builds": [{"memory": {"least_bytes": 3 * MIB}, "arena_bytes": 4 * MIB}, {"memory": None, "arena_bytes": MIB}],
    "regions": [{"fallbacks": 1}, {"fallbacks": 2}],
    "remarks": [{"stage": "memory", "reason": "its first step waits"}, {"stage": "cache", "reason": "another"}]}


def test_a_settled_step_is_told_from_the_whole_run(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    found = row("resnet50_train", "stitch", SAID, tmp_path / "report.json", "62c2d338")
    assert dict(zip(HEADER, cells(found), strict=True)) == {
        "case": "resnet50_train", "by": "stitch", "before": "2", "first call": "9", "whole run": "9", "settled": "6",
        "whole run / settled": "1.50", "arena": "4", "least": "3", "first call, s": "4.0", "call, ms": "250.0",
        "commit": "62c2d338"}
    assert found["remarks"] == ["its first step waits"]
    assert (found["runs by TensorFlow"], found["regions"]) == (3, 2)


def test_an_allocator_that_counts_from_the_start_on_has_no_settled_step(tmp_path: Path) -> None:
    found = row("resnet50_train", "jax", SAID | {"by_call": False}, tmp_path / "none.json", "62c2d338")
    document = {"machine": {"gpu": "H200"}, "date": "2026-11-29", "command": "python -m tools.memory_peaks",
                "rows": [found]}
    assert list(page(document))[-1] == "| resnet50_train | jax | 2 | 9 | 9 | - | - | - | - | 4.0 | 250.0 | 62c2d338 |"
