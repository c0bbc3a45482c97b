"""Prints the tables of FusionStitching and AStitch with our figures beside the papers', and draws their figures.

    python -m tools.tables benchmarks/raw/cpu_models.json.gz benchmarks/raw/h200_models.json.gz
    python -m tools.tables /tmp/models.json --out=/tmp/page/papers.md

The results are those of `python -m tools.benchmark --models`. Writes a page, pictures into figures/ beside it. What
could not be measured is printed as such, with the reason. The papers' rows are in tools/tables/paper_rows.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.tables import astitch, fusion_stitching
from tools.tables.page import page
from tools.tables.plots import draw
from tools.tables.results import load

ROOT = Path(__file__).resolve().parents[2]


PAPER_ROWS = ROOT / "tools" / "tables" / "paper_rows.json"
FIGURES = "figures"

_OUT = flags.DEFINE_string("out", str(ROOT / "benchmarks" / "papers.md"), "the page; pictures go to figures/ beside it")


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 2:
        raise app.UsageError("which results?")
    ours = [load(Path(name)) for name in arguments[1:]]
    paper, out = json.loads(PAPER_ROWS.read_text()), Path(_OUT.value)
    papers = [("FusionStitching", fusion_stitching.sections(paper["fusionstitching"], ours)),
              ("AStitch", astitch.sections(paper["astitch"], ours))]  # fmt: skip
    (out.parent / FIGURES).mkdir(parents=True, exist_ok=True)
    for _, sections in papers:
        for section in sections:
            if section.chart is not None and not section.chart.is_empty:
                draw(section.chart, out.parent / FIGURES)
    out.write_text(page(ours, papers, out.parent, FIGURES))
    print(out)


if __name__ == "__main__":
    app.run(main)
