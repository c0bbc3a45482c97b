"""The README's figure is drawn from the committed rows."""

from __future__ import annotations

import csv
from pathlib import Path

from tools.speed_figure import BENCHMARKS, draw, speedups


def rows() -> list[dict[str, str]]:
    with (BENCHMARKS / "known_models.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_backend_that_was_not_measured_has_no_bar() -> None:
    found = speedups({"tensorflow_ms": "6", "xla_ms": "3", "tf_stitch_ms": "2", "inductor_ms": ""})
    assert found == {"xla_ms": 2.0, "tf_stitch_ms": 3.0}


def test_every_model_is_in_the_committed_figure(tmp_path: Path) -> None:
    draw(rows(), tmp_path / "figure.svg")
    drawn, committed = ((folder / name).read_text() for folder, name in
                        ((tmp_path, "figure.svg"), (BENCHMARKS / "figures", "known_models.svg")))  # fmt: skip
    for row in rows():
        speed = f"{speedups(row)['tf_stitch_ms']:.1f}"
        for text in (drawn, committed):
            assert f"{row['model']}, {row['mode']}" in text
            assert f">{speed}<" in text
