"""Networks are timed in turns, and what failed or was not ready is said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from models import language, lstm, vision
from tools import network_benchmark
from tools.benchmark.network_cases import CASES
from tools.benchmark.torch_worker import HAVE

REPORT = {"regions": [{}], "profitability": [{"chosen": "stitched"}], "fallbacks": [],
          "graphs": [{"left_out": {"x": 2}}],
          "kernels": [{"build": 0, "launch": "launch_0", "rule": "row_reduction", "domain": [2, 3], "predicted_us": 1.5,
                       "bytes": 24, "nodes": ["a", "b"]}]}  # fmt: skip


class Fake:
    """A process whose calls take 2 ms, XLA's 4; PyTorch's has no first call in time."""

    def __init__(self, program: str, *arguments: object, backend: str, variables: Mapping[str, str]) -> None:
        self.backend = backend
        assert program == ("torch_worker" if backend == "inductor" else "network_worker")
        assert bool(variables) is (backend == "tf_stitch")

    def ask(self, *words: object, limit: float) -> dict[str, Any]:
        if self.backend == "inductor":
            raise TimeoutError("no answer")
        if len(words) == 3:
            return {"kernels": [["launch_0", 1, 2.0, None]], "library": []}
        return {"ms": 4.0 if self.backend == "xla" else 2.0, "warm_up_s": 1.25, "result": 0.5}

    def said(self) -> list[str]:
        return []

    def report(self) -> dict[str, Any] | None:
        return REPORT if self.backend == "tf_stitch" else None


def test_rows_and_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(network_benchmark, "Worker", Fake)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])
    file = tmp_path / "kernels.json"
    with flagsaver.flagsaver(backends=["xla", "stitch", "inductor"], rounds=2, kernels=str(file)):
        rows = network_benchmark.measure(["gpt2_train", "moe_train"])
    assert [(row["network"], row["backend"]) for row in rows] == [
        ("gpt2_train", "xla"), ("gpt2_train", "tf_stitch"), ("gpt2_train", "inductor"),
        ("moe_train", "xla"), ("moe_train", "tf_stitch")], "PyTorch has no such mixture of experts"  # fmt: skip
    xla, ours, inductor = rows[:3]
    assert (xla["median_ms"], ours["median_ms"], ours["first_call_s"]) == (4.0, 2.0, 1.2)
    assert inductor["median_ms"] == "failed: no answer"
    assert (ours["regions"], ours["checked"], ours["by_tensorflow"], ours["left_out"]) == (1, 1, 0, "2 x")
    known = json.loads(file.read_text())
    assert known["gpt2_train/tf_stitch"]["launches"] == [[0, "launch_0", "row_reduction", [2, 3], 1.5, 24, ["a", "b"]]]
    assert "gpt2_train/inductor" not in known


def test_there_are_such_networks() -> None:
    for case in CASES.values():
        assert case.network in (vision.NAMES if case.size else (*language.NAMES, *lstm.NAMES))
    assert set(HAVE) <= {case.network for case in CASES.values()}


@pytest.mark.parametrize("name", lstm.NAMES)
def test_backward_gives_gradients_and_changes_nothing(name: str) -> None:
    network = lstm.build(name, lstm.SMALL)
    wanted, *given = network.batch(2)
    before = [keras.ops.convert_to_numpy(w) for w in network.model.trainable_variables]
    loss, *gradients = network.backward(wanted, *given)
    assert float(loss) > 0
    assert [g.shape for g in gradients] == [w.shape for w in before]
    for weight, was in zip(network.model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), was)
