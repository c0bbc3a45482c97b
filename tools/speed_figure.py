"""Draws the README's figure: XLA's time divided by tf_stitch's, for every network on record.

    python -m tools.speed_figure                   # benchmarks/networks_h200.csv into figures/networks_h200.svg
    python -m tools.speed_figure --gpu=h100 --out=other.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from tools.benchmark.network_rows import BENCHMARKS
from tools.benchmark.network_summary import GPUS, networks, short, speedups

FASTER, SLOWER = "#d9480f", "#9aa5b1"
NAMED = 3
"""Networks named at either end."""


def draw(ratios: Mapping[str, float], out: Path) -> None:
    """Writes an SVG: a bar for each ratio, given in rising order, from 1 upwards or downwards."""
    mpl.use("Agg")
    # The same bytes from the same rows; text as text.
    mpl.rcParams.update({"svg.hashsalt": "tf_stitch", "svg.fonttype": "none", "font.size": 9})
    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    values = list(ratios.values())
    bars = axes.bar(range(len(values)), [value - 1 for value in values], bottom=1, width=0.8,
                    color=[FASTER if value >= 1 else SLOWER for value in values])  # fmt: skip
    for place, (bar, title) in enumerate(zip(bars, ratios, strict=True)):
        bar.set_gid(f"network{place}")
        if place < NAMED or place >= len(values) - NAMED:
            axes.annotate(f"{short(title)} {values[place]:.2f}", (place, max(values[place], 1)), (0, 3),
                          textcoords="offset points", rotation=90 if place < NAMED else 0,
                          ha="center" if place < NAMED else "right", fontsize=7)  # fmt: skip
    axes.set_yscale("log")
    axes.set_yticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axes.set_ylim(0.5, 30)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks([])
    axes.set_xlabel(f"{len(values)} train steps and inferences")
    axes.set_ylabel("times as fast as XLA")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", choices=GPUS, default=GPUS[0])
    parser.add_argument("--out", type=Path, help="default: benchmarks/figures/networks_GPU.svg")
    arguments = parser.parse_args()
    draw(speedups(networks(arguments.gpu), "xla"),
         arguments.out or BENCHMARKS / "figures" / f"networks_{arguments.gpu}.svg")  # fmt: skip


if __name__ == "__main__":
    main()
