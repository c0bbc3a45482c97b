"""Draws the README's figure: how much faster than TensorFlow models run that people know.

    python -m tools.speed_figure                   # benchmarks/known_models.csv into figures/known_models.svg
    python -m tools.speed_figure --rows=other.csv --out=other.svg

The rows are medians in milliseconds; an empty cell was not measured.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
BACKENDS = {"xla_ms": ("XLA", "#9aa5b1"), "tf_stitch_ms": ("tf_stitch", "#d9480f"),
            "inductor_ms": ("PyTorch Inductor, CUDA graphs", "#3b5bdb")}  # fmt: skip
"""Column -> label and colour."""
_BAR = 0.26
"""Height of a bar, of the 1 that a model has."""


def speedups(row: Mapping[str, str]) -> dict[str, float]:
    """Column -> TensorFlow's time over that one; columns that were not measured are left out."""
    return {column: float(row["tensorflow_ms"]) / float(row[column]) for column in BACKENDS if row[column]}


def draw(rows: Sequence[Mapping[str, str]], out: Path) -> None:
    """Writes an SVG: for each row a bar for each backend, TensorFlow being 1."""
    mpl.use("Agg")
    # The same bytes from the same rows; text as text.
    mpl.rcParams.update({"svg.hashsalt": "tf_stitch", "svg.fonttype": "none", "font.size": 9})
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(rows) + 1), layout="constrained")
    for number, (column, (label, colour)) in enumerate(BACKENDS.items()):
        found = [(place, speedups(row)[column]) for place, row in enumerate(rows) if column in speedups(row)]
        bars = axes.barh([place + (number - 1) * _BAR for place, _ in found], [speed for _, speed in found], _BAR,
                         label=label, color=colour)  # fmt: skip
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=6)
    axes.set_yticks(range(len(rows)), [f"{row['model']}, {row['mode']}" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.set_xlabel("times as fast as TensorFlow (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(BACKENDS), frameon=False)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=BENCHMARKS / "known_models.csv")
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "figures" / "known_models.svg")
    arguments = parser.parse_args()
    with arguments.rows.open(newline="") as file:
        draw(list(csv.DictReader(file)), arguments.out)


if __name__ == "__main__":
    main()
