"""The committed comparison of predictions with measurements, and what made it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tf_stitch.device.profile import parse_profile, shipped_profile
from tf_stitch.device.spec import CPU
from tools.benchmark.raw_rows import raw_rows, read_rows
from tools.calibrate.measure import document
from tools.calibrate.table import table
from tools.cost_report.table import markdown, summary

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("device", ["h200", "cpu"])
def test_the_model_is_right_within_thirty_percent(device: str) -> None:
    report = read_rows(raw_rows(f"cost_model_{device}"))
    assert report["summary"] == summary(report["kernels"])
    assert report["summary"]["all"]["median_error"] < 0.3
    groups = {"peers", "irregular", "other sizes", "encoder_train", "word2vec_train", "char_train"}
    assert groups <= set(report["summary"])
    assert (BENCHMARKS / f"cost_model_{device}.md").read_text() == markdown(report)


def test_errors_are_relative_to_the_measured_time() -> None:
    rows = [{"group": "a", "error": e} for e in (-0.5, 0.1, 1.0)] + [{"group": "b", "error": float("nan")}]
    found = summary([row for row in rows if row["group"] == "a"])
    assert found["all"]["median_error"] == 0.5
    assert found["all"]["largest_factor"] == 2.0
    assert found["a"]["kernels"] == 3


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_a_profile_prints(name: str) -> None:
    text = table(shipped_profile(name))
    assert "bandwidth" in text
    assert "exp" in text
    assert "date: 2026" in text


def test_what_is_measured_makes_a_profile() -> None:
    profile = CPU.profile
    values = {key: value for key, value in profile.document().items()
              if key not in ("version", "name", "target", "processors", "made")}  # fmt: skip
    again = parse_profile(json.loads(json.dumps(document(CPU, values, {}))))
    assert [rate for _, rate in again.bandwidth] == pytest.approx([rate for _, rate in profile.bandwidth], rel=1e-3)
    assert again.launch_us == pytest.approx(profile.launch_us, rel=1e-3)
