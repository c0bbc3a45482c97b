"""Replicas are timed in turns, and what failed is said."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import keras
import pytest
from absl import flags
from absl.testing import flagsaver

from models import language
from tools import replica_benchmark
from tools.benchmark.network_cases import NetworkCase
from tools.benchmark.replica_worker import trainer

REPORT = {"regions": [{}, {}], "profitability": [{}], "fallbacks": [{"count": 1, "reason": "x"}]}


class Fake:
    """A process whose steps take 3 ms on each of its GPUs; TensorFlow's cannot have two."""

    def __init__(self, program: str, network: str, replicas: str, backend: str, variables: Mapping[str, str]) -> None:
        assert program == "replica_worker"
        assert bool(variables) is (backend == "tf_stitch")
        self.backend, self.replicas = backend, int(replicas)

    def ask(self, before: int, timed: int, limit: float) -> dict[str, Any]:
        if self.backend == "tensorflow" and self.replicas == 2:
            raise RuntimeError("2 replicas on 1 devices")
        return {"ms": 3.0 * self.replicas, "warm_up_s": 1.5, "loss": 0.25}

    def said(self) -> list[str]:
        return []

    def report(self) -> dict[str, Any] | None:
        return REPORT if self.backend == "tf_stitch" else None


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_benchmark, "Worker", Fake)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])
    with flagsaver.flagsaver(replica_rounds=2, replicas=["1", "2"], replica_backends=["tf", "stitch"]):
        rows = replica_benchmark.measure(["gpt2_train"])
    assert [(row["backend"], row["replicas"], row["median_ms"]) for row in rows] == [
        ("tensorflow", "1", 3.0), ("tf_stitch", "1", 3.0), ("tensorflow", "2", "failed: 2 replicas on 1 devices"),
        ("tf_stitch", "2", 6.0)]  # fmt: skip
    assert (rows[3]["first_epoch_s"], rows[3]["loss"], rows[3]["regions"], rows[3]["checked"],
            rows[3]["fallbacks"]) == (1.5, "0.25", 2, 1, "1 x")  # fmt: skip


def test_a_network_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "CONFIGS", language.SMALL)
    answer = trainer(NetworkCase("GPT2", "train", 4, "float32", 0), 1)
    first = answer("2", "0")
    fit = keras.Model.fit

    def late(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.5)
        return fit(*arguments, **named)

    monkeypatch.setattr(keras.Model, "fit", late)
    later = answer("30", "10")
    assert later["warm_up_s"] > 0.5
    assert 0 < later["ms"] < 50, "of a step, without what an epoch begins with"
    assert later["loss"] < first["loss"]


def test_more_replicas_than_devices() -> None:
    with pytest.raises(ValueError, match="99 replicas on"):
        trainer(NetworkCase("GPT2", "train", 4, "float32", 0), 99)
