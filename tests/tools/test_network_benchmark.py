"""Networks are timed in turns, and what failed or was not ready is said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from models import kinds, language, lstm, vision
from models.network import Network
from tools import network_benchmark
from tools.benchmark import network_turns, network_worker
from tools.benchmark.network_cases import CASES, NetworkCase
from tools.benchmark.network_turns import Turns
from tools.benchmark.peers import PEERS
from tools.benchmark.torch_worker import HAVE

REPORT = {"regions": [{}], "profitability": [{"chosen": "stitched"}], "fallbacks": [],
          "graphs": [{"left_out": {"x": 2}}],
          "kernels": [{"build": 0, "launch": "launch_0", "rule": "row_reduction", "domain": [2, 3], "predicted_us": 1.5,
                       "bytes": 24, "nodes": ["a", "b"]}]}  # fmt: skip


class Fake:
    """A process whose calls take 2 ms, XLA's 4, three quarters of them on the device, and less memory each time;
    PyTorch's has no first call in time, but of GPT-2's inference; peers' peaks do not go down."""

    def __init__(self, program: str, *arguments: object, backend: str, variables: Mapping[str, str]) -> None:
        self.backend, self.network, self.mib = backend, arguments[0], [300.25, 200.0, 100.5, 100.5, 100.5]
        peer = PEERS.get(backend)
        assert program == (peer.program if peer else "network_worker")
        assert arguments[1:] == (tuple(peer.arguments) if peer else (backend,))
        assert bool(variables) is (backend in ("tf_stitch", "jax", "jax_max"))

    def ask(self, *words: object, limit: float) -> dict[str, Any]:
        if self.backend == "inductor" and self.network != "gpt2_infer":
            raise TimeoutError("no answer")
        if words[-1] == "profile":
            return {"device_us": 1500.0, "kernels": [["launch_0", 1, 2.0, None]], "library": []}
        memory = {"gpu_mib": 300.25 if self.backend in PEERS else self.mib.pop(0)}
        return {"ms": 4.0 if self.backend == "xla" else 2.0, "warm_up_s": 1.25, "result": 0.5,
                "losses": [[1.5]] * int(str(words[0])), **({} if self.backend == "xla" else memory)}  # fmt: skip

    def said(self) -> list[str]:
        return []

    def report(self) -> dict[str, Any] | None:
        return REPORT if self.backend == "tf_stitch" else None


def test_rows_and_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(network_turns, "Worker", Fake)
    file = tmp_path / "kernels.json"
    turns = Turns(["xla", "stitch", "inductor"], rounds=2, kernels=file, partial=tmp_path / "partial.json")
    rows = [case.row for cases in network_turns.measure(["gpt2_train", "moe_train"], turns) for case in cases]
    assert [(row["network"], row["backend"]) for row in rows] == [
        ("gpt2_train", "xla"), ("gpt2_train", "tf_stitch"), ("gpt2_train", "inductor"),
        ("moe_train", "xla"), ("moe_train", "tf_stitch")], "PyTorch has no such mixture of experts"  # fmt: skip
    xla, ours, inductor = rows[:3]
    assert (xla["median_ms"], ours["median_ms"], ours["first_call_s"]) == (4.0, 2.0, 1.2)
    assert (ours["device_ms"], ours["busy"], xla["busy"]) == (1.5, 0.75, 0.375)
    assert inductor["median_ms"] == "failed: no answer"
    assert (ours["regions"], ours["checked"], ours["by_tensorflow"], ours["left_out"]) == (1, 1, 0, "2 x")
    known = json.loads(file.read_text())
    assert known["gpt2_train/tf_stitch"]["launches"] == [[0, "launch_0", "row_reduction", [2, 3], 1.5, 24, ["a", "b"]]]
    assert "gpt2_train/inductor" not in known
    partial = json.loads((tmp_path / "partial.json").read_text())
    assert [(row["network"], row["backend"], row["ms"]) for row in partial[::3]] == [
        ("gpt2_train", "xla", [4.0, 4.0]), ("moe_train", "xla", [4.0, 4.0])]


def test_peaks_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start on, and of the last turn where the allocator sees it; none where there is no GPU."""
    monkeypatch.setattr(network_turns, "Worker", Fake)
    turns = Turns(["tf", "xla", "stitch", "inductor", "inductor_max", "jax", "jax_max"], rounds=2)
    rows = [case.row for cases in network_turns.measure(["gpt2_infer"], turns) for case in cases]
    assert [(row["backend"], row.get("peak_mib"), row.get("steady_peak_mib")) for row in rows] == [
        ("tensorflow", 300, 100), ("xla", None, None), ("tf_stitch", 300, 100), ("inductor", 300, None),
        ("inductor_max", 300, None), ("jax", 300, None), ("jax_max", 300, None)]
    assert all(set(row) <= set(network_benchmark.FIELDS) for row in rows)


def test_times_stay_without_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutProfiler(Fake):
        def ask(self, *words: object, limit: float) -> dict[str, Any]:
            if words[-1] == "profile":
                raise RuntimeError("no profiler")
            return super().ask(*words, limit=limit)

    monkeypatch.setattr(network_turns, "Worker", WithoutProfiler)
    ((case,),) = network_turns.measure(["gpt2_infer"], Turns(["jax"], rounds=2))
    assert case.row["median_ms"] == 2.0
    assert "device_ms" not in case.row


def test_losses_of_the_first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_turns, "Worker", Fake)
    ((case,),) = network_turns.measure(["gpt2_infer"], Turns(["stitch"], rounds=1, losses=4))
    assert case.losses == [[1.5]] * 4


def test_a_worker_tells_the_peak_since_it_was_last_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    keras = pytest.importorskip("keras")
    import tensorflow as tf

    peaks = iter((7 * 2**20, 5 * 2**20))
    resets: list[str] = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"peak": next(peaks)})
    monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", resets.append)
    monkeypatch.setitem(CASES, "small", NetworkCase("ResNet50", "infer", 2, "float32", 8))

    def build(name: str, size: int) -> Network:
        model = keras.Sequential([keras.Input((size,)), keras.layers.Dense(3)])
        return vision.network(model, ((size,),), keras.losses.mean_squared_error)

    monkeypatch.setattr(vision, "build", build)
    answer = network_worker.start("small", "tensorflow")
    first, second = answer("1", "0"), answer("1", "2")
    assert (first["gpu_mib"], second["gpu_mib"], resets) == (7, 5, ["GPU:0"] * 2)
    assert second["result"] > 0


def test_there_are_such_networks() -> None:
    for case in CASES.values():
        assert case.network in (vision.NAMES if case.size else (*language.NAMES, *lstm.NAMES, *kinds.NAMES))
    assert {case.network for case in CASES.values() if case.mode == "train"} >= set(kinds.NAMES)
    assert set(HAVE) <= {case.network for case in CASES.values()}


@pytest.mark.parametrize("network", vision.NAMES)
def test_images_are_timed_at_batch_1_and_32(network: str) -> None:
    timed = {(case.mode, case.batch) for case in CASES.values() if case.network == network}
    assert timed >= {("train", 1), ("train", 32), ("infer", 1), ("infer", 32)}


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
