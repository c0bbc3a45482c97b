"""Pages have the figures that the committed rows give."""

from __future__ import annotations

import pytest

from tools.benchmark.network_summary import networks, speedups
from tools.speed_summary import MARKED, PAGES, ROOT, filled


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


@pytest.mark.parametrize("page", ["benchmarks/networks.md", "benchmarks/models.md"])
def test_no_table_of_rows_is_written_by_hand(page: str) -> None:
    assert "| " not in MARKED.sub("", (ROOT / page).read_text())
