"""Keras' own loops on several backends: what is run, and what the rows say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pytest

from models.network import Network
from tools.benchmark import loop_turns, loop_worker
from tools.benchmark.networks import Built


class Fake:
    """A process whose epochs of 64 steps take 128 ms."""

    def __init__(self, program: str, *arguments: object, backend: str, variables: Mapping[str, str]) -> None:
        assert (program, arguments) == ("loop_worker", ("x", "fit", "8", "32"))
        assert variables.get("KERAS_BACKEND") == ("jax" if backend == "jax" else None)

    def ask(self, *words: object, limit: float) -> dict[str, Any]:
        return {"ms": 128.0, "warm_up_s": 3.04}

    def said(self) -> list[str]:
        return []

    def report(self) -> None:
        return None


def test_rows_are_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_turns, "Worker", Fake)
    rows = loop_turns.measured("x", "fit", "8", "32", ("tf", "stitch", "jax"), rounds=2, ready=9)
    assert [(row["backend"], row["median_ms"], row["first_epoch_s"]) for row in rows] == [
        ("tensorflow", 2.0, 3.0), ("tf_stitch", 2.0, 3.0), ("jax", 2.0, 3.0)]
    assert all(set(row) == set(loop_turns.FIELDS) for row in rows)


@pytest.mark.parametrize("loop", loop_worker.LOOPS)
def test_loops_see_all_batches(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_worker, "BATCHES", 4)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    network = Network(model, optimizer, keras.losses.mean_squared_error,
                      lambda random, size: (np.ones((size, 1), np.float32), np.ones((size, 3), np.float32)))
    monkeypatch.setattr(loop_worker, "built", lambda name: Built(network, "train", 2))
    answer = loop_worker.start("x", loop, "2", "1")
    answer("1", "0")
    assert int(optimizer.iterations) == (0 if loop == "predict" else 4)
    assert np.isfinite(answer("0", "1")["result"])
