"""`python -m tools.benchmark --models`: classes of kernels, rows of what fails, going on where it was stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

from tools.benchmark import kernel_counts, model_rows, pattern_facts, profitability_facts, workers
from tools.benchmark.model_cases import ModelCase, root_mean_square, step_of

PLAN = model_rows.Plan(warm_up=6, rounds=2, seconds=0.06, profiled=1, least=0)
CASES = [ModelCase("logistic", "train"), ModelCase("perceptron", "infer", dtype="mixed_float16")]


@pytest.mark.parametrize(("kernel", "wanted"), [
    ("void Eigen::internal::EigenMetaKernel<...>", "memory"),
    ("void Eigen::internal::EigenMetaKernel<Eigen::TensorConversionOp<int, ...>>", "memory"),
    ("loop_add_fusion_3", "memory"),
    ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32", "library"),
    ("cudnn::bn_fw_tr_1C11_kernel_NCHW", "library"),
    ("MemcpyD2D", "copies"),
    ("Memset", "copies"),
])  # fmt: skip
def test_classes_of_gpu_kernels(kernel: str, wanted: str) -> None:
    assert kernel_counts.kernel_class(kernel) == wanted


def test_classes_of_host_events() -> None:
    names = ["adam/Square_4:Square", "dense/Relu:_MklNativeFusedMatMul", "x/ReadVariableOp:ReadVariableOp",
             "tf_stitch_12/adam/Add:StitchStateOp", "KernelAndDeviceFunc::Run", "__inference_f_5:__inference_f_5",
             "EagerLocalExecute: _EagerConst", "multiply_add_fusion", "end: multiply_add_fusion", "copy.2",
             "end: copy.2", "dot.3", "end: dot.3"]  # fmt: skip
    classes = kernel_counts.Classes()
    for name in names:
        kernel_counts.count_host(name, kernel_counts.Events(4, 10.0), names, classes)
    assert classes.counts == {"memory": 8, "library": 8, "copies": 4}
    assert classes.us == {"memory": 30, "library": 20, "copies": 10}  # a region's time is known before its kernels are
    assert classes.regions == {"12": 4}


def test_events_of_a_gpu() -> None:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    plane = xplane_pb2.XPlane(name="/device:GPU:0")
    plane.event_metadata[1].name, plane.stat_metadata[1].name = "fused_add", "kernel_details"
    plane.stat_metadata[2].name = "regs:32 grid:8,1,1 block:256,1,1 occ_pct:62.5"
    for line in ("Stream #7", "TensorFlow Ops"):
        events = plane.lines.add(name=line).events
        for _ in range(2):
            events.add(metadata_id=1, duration_ps=3_000_000).stats.add(metadata_id=1, ref_value=2)
    found: dict[str, kernel_counts.Events] = {}
    kernel_counts.add_plane(plane, found)
    assert found == {"fused_add": kernel_counts.Events(2, 6.0, 62.5)}


def test_kernels_of_a_gpu_are_listed_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    device = {"fused_add": kernel_counts.Events(4, 6.0, 62.5), "cublasLt_gemm": kernel_counts.Events(2, 80.0, 12.5),
              "fused_mul": kernel_counts.Events(2, 8.0), "MemcpyD2D": kernel_counts.Events(2, 1.0)}  # fmt: skip
    monkeypatch.setattr(kernel_counts, "_planes", lambda _: {"/device:GPU:0": device, "/host:CPU": {}})
    counts = kernel_counts.profiled(lambda: None, 2)
    assert counts["kernels"] == [["fused_mul", 1, 4, None], ["fused_add", 2, 3, 62.5]]
    assert counts["library"] == [["cublasLt_gemm", 1, 40, 12.5]]


def test_a_region_counts_as_its_kernels() -> None:
    kernels = [{"region": 12, "build": build} for build in (0, 0, 0, 1, 1)]
    counts = {"classes": {"memory": 1.0, "library": 2.0, "copies": 0.0}, "regions": {"12": 3.0, "5": 1.0}}
    classes = kernel_counts.with_regions(counts, {"kernels": kernels})
    assert classes == {"memory": 1 + 3 * 2 + 1, "library": 2, "copies": 0}


def test_counts_of_a_real_program() -> None:
    counts = kernel_counts.profiled(step_of(CASES[0], jit_compile=False), 2)
    # The update of the weights and the matmul with the image's transpose, at least.
    assert counts["classes"]["memory"] >= 5
    assert counts["classes"]["library"] >= 1
    assert counts["regions"] == {}
    assert counts["class_us"]["memory"] > 0


def test_what_was_inferred_is_compared_by_its_numbers() -> None:
    """nmt gives words first, whose numbers differ where two are equally good."""
    words, score = np.array([3, 70_000]), np.array([3.0, 4.0], np.float32)
    assert root_mean_square({"translation": words, "score": score}) == pytest.approx(12.5**0.5)
    half = score.astype(tf.bfloat16.as_numpy_dtype)
    assert root_mean_square({"translation": words, "score": half}) == pytest.approx(12.5**0.5)
    assert root_mean_square({"translation": words[:1]}) == 3


class FakeWorker:
    """Answers like a worker; the process of XLA dies after its warm-up."""

    started: ClassVar[list[str]] = []

    def __init__(self, program: str, case: ModelCase, name: str, backend: str, **_: Any) -> None:
        self._backend, self._calls = backend, 0
        FakeWorker.started.append(f"{case} {backend}")

    def wait(self) -> None: ...

    def ask(self, what: str, steps: int, limit: float | None = None) -> dict[str, Any]:
        self._calls += 1
        if self._backend == "xla" and limit == 1:
            raise TimeoutError("no answer within 1 s")
        if self._backend == "xla" and self._calls > PLAN.warm_up:
            raise RuntimeError("no such thing\nInvalidArgumentError: dynamic sizes")
        if what == "run":
            return {"seconds": [0.001] * steps, "losses": [1.0] * steps}
        if what == "settle":
            return {"settled": True, "seconds": 0.0}
        if what == "memory":
            return {"host_mib": 90.0, "gpu_mib": 50.0}
        return {"classes": {"memory": 3.0, "library": 1.0, "copies": 0.0}, "regions": {}, "host_mib": 100.0,
                "gpu_mib": 40.0,
                "class_us": {"memory": 30.0, "library": 10.0, "copies": 0.0}, "kernels": [], "library": []}  # fmt: skip

    def said(self) -> list[str]:
        return ["[tf_stitch] 1 graphs"]

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
    assert row["stitch_settled"] == {"settled": True, "seconds": 0.0}
    assert row["tf_memory"] == {"host_mib": 100, "gpu_mib": 50, "gpu_steady_mib": 40}
    assert row["loss_difference"] == {"xla": 0, "stitch": 0}
    assert "dynamic sizes" in row["failures"]["xla"]
    assert "xla_us" not in row
    assert "failed" in model_rows.table(rows, ["tf", "xla", "stitch"])


def test_each_shape_of_a_model_is_warmed_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The profitability check times each for itself: turns that come before it has decided are half TensorFlow's."""
    monkeypatch.setattr(model_rows, "Worker", FakeWorker)
    FakeWorker.started = []
    cases = [ModelCase("transformer", "train"), ModelCase("bert", "train")]
    plan = replace(PLAN, seconds=20, rounds=2)
    rows = model_rows.measure_models(cases, ["tf", "stitch"], plan, tmp_path / "rows.json")
    assert [row["shapes"] for row in rows] == [2, 1]
    assert [row["stitch_warm_up_steps"] for row in rows] == [2 * PLAN.warm_up, PLAN.warm_up]
    assert {row["tf_warm_up_steps"] for row in rows} == {PLAN.warm_up}


def test_failed_rows_are_repeated_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(model_rows, "Worker", FakeWorker)
    out = tmp_path / "rows.json"
    model_rows.measure_models(CASES[:1], ["tf", "xla"], PLAN, out)
    FakeWorker.started = []
    rows = model_rows.measure_models(CASES, ["tf", "xla"], PLAN, out)
    assert [line.split("/")[0] for line in FakeWorker.started] == ["perceptron", "perceptron", "logistic", "logistic"]
    assert [row["model"] for row in rows] == ["logistic", "perceptron"]


def test_a_backend_that_compiles_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(model_rows, "Worker", FakeWorker)
    FakeWorker.started = []
    plan = replace(PLAN, compile_limit=1)
    for _ in range(2):  # it is no failure, so the row is not measured again
        [row] = model_rows.measure_models(CASES[:1], ["tf", "xla", "stitch"], plan, tmp_path / "rows.json")
    assert row["left_out"] == {"xla": "no answer within 1 s"}
    assert row["failures"] == {}
    assert row["stitch_us"] == pytest.approx(1000)
    assert len(FakeWorker.started) == 3


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


def test_a_worker_that_hangs_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "hang.py"
    program.write_text("import time; print('{}', flush=True); time.sleep(600)")
    worker = workers.Worker(str(program), backend="tensorflow")
    worker.wait(limit=60)
    with pytest.raises(TimeoutError, match="within 0 s"):
        worker.ask("run", limit=0.1)


def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"^ValueError: invalid literal"):
        workers.Worker("worker", CASES[0], "tensorflow", backend="tensorflow").ask("run", "many")


def test_a_stitched_worker_settles() -> None:
    worker = workers.Worker("worker", CASES[0], "tf_stitch", backend="tf_stitch")
    worker.ask("run", 1)
    assert worker.ask("settle", 60)["settled"]
    [said] = worker.said()
    assert "report.json" not in said, "rows name no folder of the machine"


def test_a_worker_that_dies_says_why(tmp_path: Path) -> None:
    program = tmp_path / "die.py"
    program.write_text("raise SystemExit('no such model')")
    with pytest.raises(RuntimeError, match="no such model"):
        workers.Worker(str(program), backend="tensorflow").ask("run", 1)


def test_facts_of_patterns() -> None:
    def kernel(rule: str, node: str, shared: int = 0) -> dict[str, Any]:
        return {"region": 3, "rule": rule, "nodes": [node], "schemes": {}, "predicted_us": 2.0, "shared_bytes": shared,
                "scratch_bytes": shared, "requested_bytes": 2 * shared}

    report = {
        "graphs": [{"nodes": [{}] * 5}, {"nodes": [{}] * 7}],
        "regions": [{"id": 3, "nodes": {"a": "Mul", "b": "BatchMatMulV2", "c": "Softmax", "d": "MatMul"}}],
        "kernels": [kernel("elementwise", "a"), kernel("row_reduction", "b", 64), kernel("row_reduction", "c", 32),
                    kernel("library", "d")],
    }  # fmt: skip
    facts = pattern_facts.pattern_facts(report)
    assert facts["number"] == {"elementwise": 1, "reduction": 1, "gemm": 1}
    assert facts["shared"] == {"kernels": 2, "predicted_us": 4.0, "largest_bytes": 64, "bytes": 96,
                               "scratch_bytes": 96, "requested_bytes": 192}
    assert pattern_facts.graph_size(report) == 7


def test_what_the_check_found() -> None:
    def outcome(region: int, chosen: str, stitched: float) -> dict[str, Any]:
        return {"region": region, "chosen": chosen, "stitched_us": stitched, "fallback_us": 10.0}

    report = {
        "regions": [{"id": i, "runs": runs, "preferred_fallback_runs": original}
                    for i, (runs, original) in enumerate([(9, 9), (0, 0), (0, 5), (30, 0)])],
        "profitability": [outcome(0, "stitched", 8.0), outcome(0, "stitched", 9.0), outcome(2, "fallback", 20.0)],
    }  # fmt: skip
    facts = profitability_facts.profitability_facts(report)
    assert facts == {"regions": 3, "timed": 2, "gave_way": 1, "largest_ratio": 0.9}
    assert profitability_facts.profitability_cell(facts) == "2 of 3, 1 gave way, at most 0.90"
    assert profitability_facts.profitability_facts({**report, "profitability": []})["largest_ratio"] is None


def test_a_failure_is_told_by_what_went_wrong_not_by_where_nodes_were_defined() -> None:
    where = 'Detected at node while/add defined at (most recent call last):\n  File "<frozen runpy>", line 198\n'
    said = f"Graph execution error:\n\n{where}\n\nIncompatible shapes: [64,20] vs. [0,3]\n\t [[{{{{node while/add}}}}]]"
    assert workers.brief(said) == "Incompatible shapes: [64,20] vs. [0,3]"
    assert workers.brief("division by zero") == "division by zero"
