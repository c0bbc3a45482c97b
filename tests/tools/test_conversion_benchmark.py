from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tools import conversion_benchmark
from tools.benchmark.conversion_cases import CASES, SAMPLES
from tools.conversion_benchmark import page


def form(seconds: list[list[float]], load: float) -> dict[str, Any]:
    return {"turns": seconds, "load": load, "first": 1.0, "runs": 1, "fallbacks": 0}


def test_the_page_has_medians_of_turns_and_their_spread() -> None:
    row = {"model": "m", "original": form([[0.001, 0.002, 0.9], [0.004], [0.003]], 1.5),
           "converted": form([[0.001], [0.002], [0.001]], 1.25), "conversion": {"cold": 30.04, "warm": 10.0},
           "coverage": {"ops": 9, "in_kernels": 5, "kernels": 2, "left": {"a": 1, "b": 2}}, "worst": 1e-6}
    document = {"machine": {"cpu": "c"}, "command": "python -m x", "results": [row, {"model": "n", "error": "no"}]}
    lines = page(document).splitlines()
    assert "| m | 3 (2 to 4) | 1 (1 to 2) | 2.00 | 1.50 / 1.25 | 30.0 / 10.0 | 9 | 5 | 2 | 3 | 1.0e-06 |" in lines
    assert lines[-1].startswith("| n | no |")
    assert lines[-1].count("|") == lines[-2].count("|")


def test_a_model_of_the_zoo_is_saved_with_a_batch_that_it_can_run(tmp_path: Path) -> None:
    import tensorflow as tf

    CASES["perceptron"].save(tmp_path / "model")
    batch = dict(np.load(tmp_path / SAMPLES))
    outputs = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"](
        **{key: tf.constant(value) for key, value in batch.items()})
    assert all(np.isfinite(value).all() for value in outputs.values())


def test_a_model_that_does_not_convert_is_a_row_with_the_reason(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(name: str) -> dict[str, Any]:
        raise RuntimeError("no")

    monkeypatch.setattr(conversion_benchmark, "measure", failing)
    monkeypatch.setattr(conversion_benchmark, "_MODELS", type("Flag", (), {"value": ["bert"]}))
    monkeypatch.setattr(conversion_benchmark, "_OUT", type("Flag", (), {"value": str(tmp_path / "rows.json.gz")}))
    conversion_benchmark.main([])
    assert "| bert | no |" in (tmp_path / "rows.md").read_text()
