"""The README's figure is drawn from the committed rows."""

from __future__ import annotations

from pathlib import Path

from tools.benchmark.network_rows import BENCHMARKS
from tools.benchmark.network_summary import networks, short, speedups
from tools.speed_figure import NAMED, draw


def test_the_committed_figure_has_a_bar_for_every_network(tmp_path: Path) -> None:
    ratios = speedups(networks("h200"), "xla")
    draw(ratios, tmp_path / "figure.svg")
    titles = list(ratios)
    for file in (tmp_path / "figure.svg", BENCHMARKS / "figures" / "networks_h200.svg"):
        text = file.read_text()
        assert text.count('id="network') == len(ratios), "run python -m tools.speed_figure"
        for title in (*titles[:NAMED], *titles[-NAMED:]):
            assert f">{short(title)} {ratios[title]:.2f}<" in text
