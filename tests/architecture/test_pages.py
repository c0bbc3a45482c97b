"""Pages that people read from beginning to end stay short; what they leave out is in the pages that they link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = {"README.md": 150, "docs/architecture.md": 250, "docs/limits.md": 160, "benchmarks/README.md": 200}
"""Page -> lines."""


@pytest.mark.parametrize("page", LONGEST)
def test_a_page_is_short(page: str) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= LONGEST[page]


def test_transcripts_are_whole() -> None:
    """Who follows them sees what they see."""
    text = (ROOT / "docs" / "getting_started.md").read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    transcripts = [block for block in blocks if block.startswith("$ ")]
    assert len(transcripts) >= 5
    cut = [line for block in transcripts for line in block.splitlines() if re.search(r"(^|\s)\.\.\.([\s;]|$)", line)]
    assert cut == []


def linked(page: Path) -> set[Path]:
    """Pages that a page links, without what leads out of the tree."""
    links = re.findall(r"\]\(([\w./-]+\.md)", page.read_text())
    return {(page.parent / link).resolve() for link in links}


def test_the_front_page_leads_to_every_page_of_docs() -> None:
    reached: set[Path] = set()
    pending = {ROOT / "README.md"}
    while pending:
        reached |= pending
        pending = {page for each in pending for page in linked(each)} - reached
    assert {path for path in (ROOT / "docs").rglob("*.md") if path not in reached} == set()
