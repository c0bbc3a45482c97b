"""Tables of pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of Markdown."""
    yield f"| {' | '.join(header)} |"
    yield "| --- " * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
