from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tf_stitch.config import load_config
from tf_stitch.native.build import STITCH_OP, build_library
from tools import conversion_benchmark
from tools.benchmark import conversion_check
from tools.benchmark.conversion_cases import CASES, SAMPLES
from tools.benchmark.conversion_page import page
from tools.benchmark.workers import Worker


def form(seconds: list[list[float]], loads: list[float]) -> dict[str, Any]:
    return {"turns": seconds, "loads": loads, "first": 1.0, "runs": 1, "fallbacks": 0}


def row() -> dict[str, Any]:
    counts = {"ops": 9, "in_kernels": 5, "kernels": 2, "left": {"a": 1, "b": 2}}
    return {"model": "m", "by": "us",
            "check": {"coverage": counts, "runs": 4, "fallbacks": 0, "worst": 1e-6, "elsewhere": 0.0},
            "times": {"original": form([[0.001, 0.002, 0.9], [0.004], [0.003]], [1.5, 1.0, 2.0]),
                      "converted": form([[0.001], [0.002], [0.001]], [3.0, 1.1, 2.0]), "kept": counts,
                      "conversion": {"cold": 30.04, "warm": 10.0}, "processor": {"cold": 20.0, "warm": 8.0}}}


def test_the_page_has_equality_and_speed() -> None:
    document = {"machine": {"cpu": "c"}, "command": "python -m x",
                "host": {"microseconds": {"one multiplication": [20.0], "original": [600.0, 500.0, 700.0],
                                          "converted": [24.0]}, "regions": 1.0, "date": "2026-11-26"},
                "results": [row(), {"model": "n", "by": "them", "error": "no"}]}
    said = page(document)
    assert "\n1 of 2 models convert" in said
    assert "\n| m | us | 9 | 5 | 2 | 3 | 4 | 0 | 1e-06, 0e+00 |\n" in said
    assert "\n| n | them | no |" in said
    assert "(1.00 to 2.00; 0 models more than 1.2)" not in said
    assert "Of 1 models a call is 2.00 times as fast" in said
    assert "\n| m | 3 (2 to 4) | 1 (1 to 2) | 2.00 | 1, 1 | 1.00 | 1.50 | 1.10 | 30.0 / 10.0 | 20.0 / 8.0 | " in said
    widths = {line.count("|") for line in said.splitlines() if line.startswith("|")}
    assert widths == {4, 10, 13}
    assert "\n| 20, 20, 20 | 500, 600, 700 | 24, 24, 24 |\n" in said


def test_a_model_of_the_zoo_converts_and_gives_the_same_outputs_elsewhere(tmp_path: Path) -> None:
    """A sample of what the page has of all models."""
    worker = Worker("reload_worker", build_library(STITCH_OP, load_config().cache_dir), backend="tensorflow")
    try:
        found = conversion_check.check(CASES["logistic"], tmp_path, worker)
    finally:
        worker.close()
    assert found["runs"] > 0
    assert found["fallbacks"] == 0
    assert found["elsewhere"] < 1e-5
    assert np.load(tmp_path / "converted.npz").files == np.load(tmp_path / "original.npz").files
    assert (tmp_path / SAMPLES).exists()


def test_another_output_in_another_process_is_said(tmp_path: Path) -> None:
    np.savez(tmp_path / "original.npz", y=np.ones(3, np.float32), z=np.zeros(3, np.float32))
    np.savez(tmp_path / "converted.npz", y=np.full(3, 1.1, np.float32), z=np.ones(3, np.float32))
    with pytest.raises(RuntimeError, match=r"output y differs by 0\.05"):
        conversion_check._elsewhere(tmp_path, ["z"])


def test_a_model_that_does_not_convert_is_a_row_with_the_reason(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(name: str, worker: object) -> dict[str, Any]:
        return {"model": name, "by": "us", "error": "no"}

    monkeypatch.setattr(conversion_benchmark, "measure", failing)
    monkeypatch.setattr(conversion_benchmark, "_MODELS", type("Flag", (), {"value": ["bert"]}))
    monkeypatch.setattr(conversion_benchmark, "_OUT", type("Flag", (), {"value": str(tmp_path / "rows.json.gz")}))
    monkeypatch.setattr(conversion_benchmark, "_HOST", type("Flag", (), {"value": False}))
    conversion_benchmark.main([])
    assert "| bert | us | no |" in (tmp_path / "rows.md").read_text()
