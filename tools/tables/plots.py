"""Draws charts as PNG."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from tools.tables.sections import Chart

mpl.use("Agg")

_BAR = 0.8
"""Width of all bars of a place, of 1."""


def draw(chart: Chart, folder: Path) -> None:
    """Writes NAME.png there."""
    figure, axes = plt.subplots(figsize=(max(5.0, 0.7 * len(chart.places) + 2), 3.2), layout="constrained")
    if chart.lines:
        for label, values in chart.series.items():
            axes.plot(range(1, len(values) + 1), [np.nan if v is None else v for v in values], label=label)
    else:
        _bars(chart, axes)
    axes.set_ylabel(chart.axis)
    axes.legend(fontsize="small")
    figure.savefig(folder / f"{chart.name}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def _bars(chart: Chart, axes: plt.Axes) -> None:
    places = np.arange(len(chart.places))
    width = _BAR if chart.stacked else _BAR / len(chart.series)
    below = np.zeros(len(places))
    for number, (label, values) in enumerate(chart.series.items()):
        heights = np.array([0.0 if v is None else v for v in values])
        if chart.stacked:
            axes.bar(places, heights, width, bottom=below, label=label)
            below += heights
        else:
            axes.bar(places + (number + 0.5) * width - _BAR / 2, heights, width, label=label)
    axes.set_xticks(places, chart.places, rotation=30, ha="right", fontsize="small")
