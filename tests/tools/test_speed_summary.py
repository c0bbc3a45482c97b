"""Pages have the figures that the committed rows give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.benchmark.network_summary import networks, speedups
from tools.speed_summary import PAGES, ROOT, filled

LONGEST = 200
"""Lines of the page of measurements."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_its_rows_give(page: str) -> None:
    text = (ROOT / page).read_text()
    assert "<!-- speed_summary: " in text
    assert filled(text) == text, "run python -m tools.speed_summary"


def test_a_section_that_there_is_not_is_named() -> None:
    with pytest.raises(KeyError, match="no-such"):
        filled("<!-- speed_summary: no-such -->\n<!-- end -->")


def test_the_front_page_counts_every_network_and_names_the_slower_ones() -> None:
    ratios = speedups(networks("h200"), "xla")
    text = (ROOT / "README.md").read_text()
    assert f"over all {len(ratios)} train steps" in text
    for title, ratio in ratios.items():
        assert ratio >= 1 or f"{title} ({ratio:.2f})" in text


def test_the_page_of_measurements_is_short() -> None:
    assert len((ROOT / "benchmarks" / "README.md").read_text().splitlines()) <= LONGEST


def test_rows_have_no_figures_of_their_own_in_prose() -> None:
    """Tables of networks are generated: none is written by hand beside the marks."""
    for page in ("networks.md", "models.md"):
        text = Path(ROOT / "benchmarks" / page).read_text()
        outside = "".join(part.partition("<!-- end -->")[2] for part in text.split("<!-- speed_summary: ")[1:])
        assert "| " not in outside
