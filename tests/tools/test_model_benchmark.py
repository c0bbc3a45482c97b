"""`tools/benchmark.py --models`: classes of kernels, rows of what fails, going on where it was stopped."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarking import kernel_counts, model_rows
from benchmarking.model_cases import ModelCase, step_of

PLAN = model_rows.Plan(warm_up=2, rounds=2, steps=3, profiled=1)
CASES = [ModelCase("logistic", "train"), ModelCase("perceptron", "infer", dtype="mixed_float16")]


@pytest.mark.parametrize(("kernel", "wanted"), [
    ("void Eigen::internal::EigenMetaKernel<...>", "memory"),
    ("loop_add_fusion_3", "memory"),
    ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32", "library"),
    ("cudnn::bn_fw_tr_1C11_kernel_NCHW", "library"),
    ("MemcpyD2D", "copies"),
    ("Memset", "copies"),
])  # fmt: skip
def test_classes_of_gpu_kernels(kernel: str, wanted: str) -> None:
    assert kernel_counts.kernel_class(kernel) == wanted


def test_classes_of_host_events() -> None:
    names = Counter({
        "adam/Square_4:Square": 4, "dense/Relu:_MklNativeFusedMatMul": 4, "x/ReadVariableOp:ReadVariableOp": 4,
        "tf_stitch_12/adam/Add:StitchStateOp": 4, "KernelAndDeviceFunc::Run": 4, "__inference_f_5:__inference_f_5": 4,
        "EagerLocalExecute: _EagerConst": 4, "multiply_add_fusion": 4, "end: multiply_add_fusion": 4, "copy.2": 4,
        "end: copy.2": 4, "dot.3": 4, "end: dot.3": 4,
    })  # fmt: skip
    classes: Counter[str] = Counter()
    regions: Counter[str] = Counter()
    for name, count in names.items():
        kernel_counts.count_host(name, count, names, classes, regions)
    assert classes == {"memory": 8, "library": 8, "copies": 4}
    assert regions == {"12": 4}


def test_a_region_counts_as_its_kernels() -> None:
    kernels = [{"region": 12, "build": build} for build in (0, 0, 0, 1, 1)]
    counts = {"classes": {"memory": 1.0, "library": 2.0, "copies": 0.0}, "regions": {"12": 3.0, "5": 1.0}}
    classes = kernel_counts.with_regions(counts, {"kernels": kernels})
    assert classes == {"memory": 1 + 3 * 2 + 1, "library": 2, "copies": 0}


def test_counts_of_a_real_program() -> None:
    counts = kernel_counts.profiled(step_of(CASES[0], jit_compile=False), 2)
    # The update of the weights and the product with the image's transpose, at least.
    assert counts["classes"]["memory"] >= 5
    assert counts["classes"]["library"] >= 1
    assert counts["regions"] == {}


class FakeWorker:
    """Answers like a worker; the process of XLA dies in its second turn."""

    started: list[str]

    def __init__(self, case: str, backend: str, clusters: bool = False, **_: Any) -> None:
        self._backend, self._turns = backend, 0
        FakeWorker.started.append(f"{case} {backend}")

    def run(self, steps: int) -> dict[str, Any]:
        self._turns += 1
        if self._backend == "xla" and self._turns == 2:
            raise RuntimeError("no such thing\nInvalidArgumentError: dynamic sizes")
        return {"seconds": [0.001] * steps, "losses": [1.0] * steps}

    def profile(self, steps: int) -> dict[str, Any]:
        return {"classes": {"memory": 3.0, "library": 1.0, "copies": 0.0}, "regions": {}, "host_mb": 100.0}

    def close(self) -> str:
        return "[tf_stitch] 1 graphs\n"

    def report(self) -> None:
        return None


def test_a_failed_backend_is_part_of_its_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(model_rows, "Worker", FakeWorker)
    FakeWorker.started = []
    out = tmp_path / "rows.json"
    rows = model_rows.measure_models(CASES, ["tf", "xla", "stitch"], PLAN, out)
    assert json.loads(out.read_text()) == rows
    assert [row["model"] for row in rows] == ["logistic", "perceptron"]
    row = rows[1]
    assert (row["mode"], row["dtype"]) == ("infer", "mixed_float16")
    assert row["tf_us"] == row["stitch_us"] == pytest.approx(1000)
    assert row["tf_kernels"] == 4
    assert row["loss_difference"] == {"xla": 0, "stitch": 0}
    assert "dynamic sizes" in row["failures"]["xla"]
    assert "xla_us" not in row
    assert "failed" in model_rows.table(rows, ["tf", "xla", "stitch"])


def test_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(model_rows, "Worker", FakeWorker)
    FakeWorker.started = []
    out = tmp_path / "rows.json"
    model_rows.measure_models(CASES[:1], ["tf", "stitch"], PLAN, out)
    assert len(FakeWorker.started) == 2
    rows = model_rows.measure_models(CASES, ["tf", "stitch"], PLAN, out)
    assert len(FakeWorker.started) == 4
    assert len(rows) == 2
    model_rows.measure_models(CASES[:1], ["tf", "xla"], PLAN, out)  # one more backend: the row is measured again
    assert len(FakeWorker.started) == 6
