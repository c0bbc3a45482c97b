"""`python -m tools.tables`: the papers' rows beside ours, and reasons where there is nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.zoo import ASTITCH, FUSION_STITCHING
from tests.end_to_end.conftest import ROOT
from tf_stitch.device.profile import shipped_profile
from tools.tables import astitch, fusion_stitching, page
from tools.tables.results import Results
from tools.tables.sections import Section

PAPER = json.loads((ROOT / "tools" / "tables" / "paper_rows.json").read_text())


def row(model: str, mode: str, dtype: str = "float32", gpu: bool = False, **more: Any) -> dict[str, Any]:
    """TensorFlow takes 400 us in 40 kernels, XLA 200 in 20, tf_stitch 100 in 10."""
    made = {"case": f"{model}/{mode}/{dtype}", "model": model, "mode": mode, "config": "small", "dtype": dtype,
            "sizes": {"batch": 7}, "machine": {"cores": 2, "load": 0.1} | ({"gpu": "NVIDIA H200"} if gpu else {}),
            "failures": {}, "left_out": {}, "backends": ["tf", "xla", "stitch"], "graph_nodes": 321,
            "loss_difference": {"stitch": 1e-7}}  # fmt: skip
    for backend, times in (("tf", 4), ("xla", 2), ("stitch", 1)):
        made |= {f"{backend}_us": 100.0 * times, f"{backend}_quartiles_us": [90.0 * times, 110.0 * times],
                 f"{backend}_first_us": 1e6, f"{backend}_memory": {"host_mib": 10.0},
                 f"{backend}_kernels_by_class": {"memory": 9.0 * times, "library": 1.0 * times, "copies": 3.0 * times},
                 f"{backend}_class_us": {"memory": 45.0 * times, "library": 5.0 * times, "copies": 2.0 * times},
                 f"{backend}_top_kernels": [["a", 1, 80.0, 50.0], ["b", 1, 20.0, 100.0]] if gpu else [],
                 f"{backend}_library_kernels": [["gemm_64x64", 3, 5.0, None]] if gpu else []}  # fmt: skip
    shared = {"kernels": 2, "predicted_us": 3.0, "largest_bytes": 2048, "bytes": 3072,
              "scratch_bytes": 3072, "requested_bytes": 4096}
    made["patterns"] = {"number": {"elementwise": 6, "reduction": 3, "gemm": 1},
                        "predicted_us": {"elementwise": 5.0, "reduction": 4.0, "gemm": 1.0},
                        "shared": shared}  # fmt: skip
    made["guard"] = {"regions": 3, "timed": 2, "gave_way": 1, "largest_ratio": 0.5}
    return made | more


def results(*rows: dict[str, Any]) -> Results:
    return Results("some_models", rows)


def cells(section: Section, first: str) -> list[str]:
    return next(found for found in section.rows if found[0] == first)


def test_rows_of_the_papers_are_those_of_the_zoo() -> None:
    for name in ("table 1", "table 2", "table 3"):
        assert set(PAPER["fusionstitching"][name]) == set(FUSION_STITCHING)
    for name in ("table 2", "table 3"):
        assert set(PAPER["astitch"][name]) == set(ASTITCH)


def test_averages_that_the_papers_state() -> None:
    """FusionStitching 6.3: 2.6 times TensorFlow on average; AStitch 6.1.2: 65.7% fewer kernels, 43.2% fewer copies."""
    speeds = [found["speed"] for found in PAPER["fusionstitching"]["table 3"].values()]
    assert sum(speeds) / len(speeds) == pytest.approx(2.6, abs=0.06)
    kernels = PAPER["astitch"]["table 3"].values()
    assert sum(1 - k["memory"] / k["xla_memory"] for k in kernels) / 5 == pytest.approx(0.657, abs=0.002)
    assert sum(1 - k["copies"] / k["xla_copies"] for k in kernels) / 5 == pytest.approx(0.432, abs=0.01)


def test_kernels_and_speed() -> None:
    section = fusion_stitching.summary(PAPER["fusionstitching"]["table 3"], results(row("nmt", "infer")))
    assert cells(section, "nmt") == ["nmt", "1.65", "2.00", "3.25", "4.00", "1.36", "2.00", "1.84", "4.00"]
    assert cells(section, "rokid")[4] == "not measured"
    assert "not measured: no row rokid float32 in some_models.json" in section.notes
    assert section.chart is not None
    assert section.chart.series["tf_stitch"][0] == pytest.approx(4)
    assert section.chart.series["tf_stitch"][1] is None


def test_characteristics() -> None:
    section = fusion_stitching.characteristics(PAPER["fusionstitching"]["table 2"], results(row("nmt", "infer")))
    assert cells(section, "nmt") == ["nmt", "1,532", "321", "5,940", "40", "9.2", "5.0", "46%", "90%"]


def test_shared_memory() -> None:
    paper = PAPER["fusionstitching"]["table 4"]
    section = fusion_stitching.shared_memory(paper, results(row("nmt", "infer", gpu=True)))
    assert cells(section, "nmt") == ["nmt", "42%", "20%", "87%", "30%", "3.60", "1.50", "18.60", "2.00", "0.81",
                                     "0.75"]  # fmt: skip
    on_cpu = fusion_stitching.shared_memory(paper, results(row("nmt", "infer")))
    assert "not measured: a CPU has no shared memory" in on_cpu.notes


def test_a_backend_that_failed_says_why() -> None:
    broken = row("bert", "infer", failures={"xla": "Traceback\nValueError: too large"})
    del broken["xla_us"]
    section = astitch.speed(PAPER["astitch"]["figure 11"], results(broken))
    assert ["infer", "bert", "not measured", "4.00", "not measured"] in section.rows
    assert "not measured: bert infer float32 with xla: ValueError: too large" in section.notes


def test_overhead_is_what_kernels_leave() -> None:
    section = astitch.breakdown(PAPER["astitch"]["figure 13"], results(row("dien", "infer", gpu=True)))
    # XLA: 90 us in memory-intensive kernels, 10 + 4 in others, 96 between them.
    assert cells(section, "dien")[1:] == [f"{part / (90 + 96):.2f}" for part in (90, 45, 96, 48)]


def test_occupancy_of_the_leading_kernels() -> None:
    section = astitch.parallelism(PAPER["astitch"]["figure 14"], results(row("crnn", "infer", gpu=True)))
    assert cells(section, "crnn")[1:3] == ["50%", "50%"]  # the first kernel has 80% of the time
    assert section.chart is not None
    assert section.chart.series["tf_stitch"] == [0.5, None, None, None, None]


def test_both_half_types_are_drawn() -> None:
    slower = row("dien", "infer", "mixed_bfloat16", stitch_us=200.0)
    section = astitch.mixed_precision(results(row("bert", "infer", "mixed_float16"), slower))
    assert section.chart is not None
    assert section.chart.places == ["bert, float16", "transformer, float16", "dien, float16",
                                    "bert, bfloat16", "transformer, bfloat16", "dien, bfloat16"]  # fmt: skip
    assert section.chart.series["tf_stitch"] == [4, None, None, None, None, 2]


def test_a_backend_that_was_not_asked_for() -> None:
    section = astitch.ablation(PAPER["astitch"]["table 4"], results(row("crnn", "infer")))
    assert cells(section, "ours") == ["ours", "0.20", "not measured", "not measured", "0.10"]
    assert "not measured: crnn infer float32 was not run with mapping" in section.notes


def test_barriers_are_those_of_the_profile() -> None:
    profile = replace(shipped_profile("h200"), barrier=((20.0, 0.75), (132.0, 1.0)))
    section = astitch.barrier(PAPER["astitch"]["table 6"], profile)
    assert cells(section, "ours")[1:3] == ["0.75", "not measured"]
    assert cells(section, "paper")[1:3] == ["2.53", "2.53"]


def test_a_page_without_a_figure_typed_by_hand(tmp_path: Path) -> None:
    rows = [row(m, "infer") for m in ASTITCH] + [row("bert", "infer", "mixed_float16"), row("nmt", "infer", gpu=False)]
    (tmp_path / "cpu_models.json").write_text(json.dumps(rows))
    (tmp_path / "other.json").write_text(json.dumps({"command": "python -m tools.other", "machine": {"cpu": "a CPU"}}))
    (tmp_path / "other.md").write_text("# Something else\n")
    (tmp_path / "third.json").write_text(json.dumps({"what": "A count", "result": "0 errors", "machine": {"gpu": "b"}}))
    done = subprocess.run([sys.executable, "-m", "tools.tables", tmp_path / "cpu_models.json",
                           f"--out={tmp_path / 'README.md'}"], capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    text = (tmp_path / "README.md").read_text()
    assert "| [other](other.md) | Something else | - | `python -m tools.other` | a CPU |" in text
    assert "| third.json | A count | 0 errors | `-` | b |" in text
    assert "4.00 times as fast as TensorFlow" in text
    for name in ("Table 1:", "Table 2:", "Table 3:", "Table 4:", "Table 5:", "Table 6:",
                 *(f"Fig. {n}:" for n in (6, 7, 8, 11, 12, 13, 14, 15, 16))):  # fmt: skip
        assert name in text, name
    pictures = {path.name for path in (tmp_path / "figures").glob("*.png")}
    assert {f"figures/{name}" in text for name in pictures} == {True}
    assert "as_figure_11_cpu_models.png" in pictures


def test_a_page_with_a_gpu(tmp_path: Path) -> None:
    """Nothing is missing but what TensorFlow's profiler does not count; models that XLA runs faster have a reason."""
    rows = [row(m, mode, dtype, gpu=True, mapping_us=300.0, hierarchy_us=200.0)
            for m in (*ASTITCH, *FUSION_STITCHING) for mode in ("train", "infer")
            for dtype in ("float32", "mixed_float16", "mixed_bfloat16")]  # fmt: skip
    rows[0]["xla_us"] = 50.0
    (tmp_path / "h200_models.json").write_text(json.dumps(rows))
    command = [sys.executable, "-m", "tools.tables", tmp_path / "h200_models.json",
               f"--out={tmp_path / 'README.md'}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    text = (tmp_path / "README.md").read_text()
    assert "### Models (NVIDIA H200)" in text
    assert ("| crnn | train | float32 | 0.50 | 90, 45 | 10, 5 | 4, 2 | 0, 48 | time between them: +48 us "
            "| a: 1 in 80 us | gemm_64x64: 3 in 5 us |") in text
    assert "in h200_models.json" not in text, "no table asks for a row that is not there"
    pictures = {path.name for path in (tmp_path / "figures").glob("*.png")}
    drawn = (*(f"as_figure_{n}_h200_models" for n in (11, 12, 13, 14, 15, 16)),
             *(f"fs_{name}_h200_models" for name in ("table_3", "figure_6", "figure_7", "figure_8")))  # fmt: skip
    assert {f"{name}.png" for name in drawn} <= pictures


def test_the_zoo_in_one_table() -> None:
    section = page.zoo(results(row("nmt", "infer"), row("bert", "infer", "mixed_float16")))
    assert cells(section, "nmt")[4:9] == ["0.40 (0.36-0.44)", "0.20 (0.18-0.22)", "0.10 (0.09-0.11)", "4.00", "2.00"]
    assert any("float32, 1 rows: 4.00 times as fast as TensorFlow" in note for note in section.notes)
    assert cells(section, "nmt")[-1] == "2 of 3, 1 gave way, at most 0.50"
    assert not any("compiled at the same time" in note or "ratio above 1" in note for note in section.notes)


def test_rows_that_need_a_remark() -> None:
    memory = {"host_mib": 10.0, "gpu_mib": 40.0, "gpu_steady_mib": 30.0}
    together = row("nmt", "infer", gpu=True, plan={"together": 6}, stitch_memory=memory,
                   tf_memory={"host_mib": 9.0, "gpu_mib": 20.0})  # fmt: skip
    alone = row("bert", "infer", gpu=True, stitch_settled={"settled": False, "seconds": 9.0},
                guard={"regions": 3, "timed": 2, "gave_way": 0, "largest_ratio": 1.2})  # fmt: skip
    section = page.zoo(results(together, alone))
    assert cells(section, "nmt")[12:18] == ["1.0\\*", "1.0\\*", "1.0\\*", "20", "10", "40 / 30"]
    assert cells(section, "bert")[12] == "1.0"
    assert any(r"\* In these rows up to 6 models" in note for note in section.notes)
    assert any("A ratio above 1" in note for note in section.notes)
    assert any("still being built" in note and note.endswith("of bert infer float32.") for note in section.notes)


def test_a_row_without_a_check_says_why() -> None:
    slow = row("dien", "train", gpu=True, left_out={"stitch": "no answer within 100 s"})
    del slow["guard"], slow["stitch_us"], slow["stitch_quartiles_us"]
    section = page.zoo(results(slow))
    assert cells(section, "dien")[-1] == "not measured"
    assert [note for note in section.notes if note.startswith("not measured")] == \
        ["not measured: dien train float32 with stitch: no answer within 100 s"]
