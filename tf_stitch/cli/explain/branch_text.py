"""Conditionals as text: which became selects, and why others are branches."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from tf_stitch.cli.explain.load import Document


def branch_lines(document: Document, graphs: Collection[str], most: int | None = None) -> Iterator[str]:
    """Lines on the conditionals of some graphs, each once.

    Args:
        graphs: their names.
        most: lines of conditionals at most; None for all.
    """
    lines: dict[str, None] = {}
    for graph in document["graphs"]:
        if graph["graph"] in graphs and not graph.get("again"):
            sources = graph.get("sources", {})
            for branch in graph.get("branches", ()):
                source = place(sources.get(branch["node"], ""))
                lines[f"  {branch['name']}{f', {source}' if source else ''}: {_became(branch)}"] = None
    if lines:
        yield "conditionals"
        yield from list(lines)[:most]
        if most is not None and len(lines) > most:
            yield f"  and {len(lines) - most} others: --full"
        yield ""


def _became(branch: dict[str, object]) -> str:
    if branch["reason"] is not None:
        return f"stays a branch: {branch['reason']}"
    return (f"became selects: {branch['nodes']} nodes run on both sides, {branch['bytes']:,} bytes at most are updated "
            "or chosen for nothing")


def place(source: str) -> str:
    """A file and line, seen from the folder at hand if it is there."""
    return source.removeprefix(f"{Path.cwd()}/")
