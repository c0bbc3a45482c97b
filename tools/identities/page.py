"""The page about sizes that TensorFlow's inference gets wrong, from the table that import reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = Path("benchmarks/identities.md")
UNSEEN = "not checked, since no call ran"
"""Why names are not believed that inference gives to sizes of an op that was never run."""


def page(table: Mapping[str, Any]) -> str:
    """Markdown."""
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    yield from ["# Sizes that TensorFlow's shape inference gets wrong", "",
                f"TensorFlow {table['tensorflow']}, CPU, {table['date']}: `{table['command']}`. Each op is called with "
                "inputs that are drawn, of sizes that differ. In one graph for all calls of an op, in which inputs "
                "have a known rank, some integers are constants, or all is known that can be, inference says which "
                "sizes are equal, and which numbers they are. Verdicts are in `raw/identities.jsonl.gz`.", "",
                "| what was found | ops |", "| --- | ---: |"]  # fmt: skip
    yield from (f"| {status} | {count} |" for status, count in table["counts"].items())
    unseen = [op for op, why in table["doubted"].items() if why == UNSEEN]
    yield from ["", "Import does not believe:", "", "| op | equal sizes | numbers |", "| --- | --- | --- |"]
    for op in sorted({*table["doubted"], *table["miscounted"]} - set(unseen)):
        yield f"| {op} | {table['doubted'].get(op, '')} | {table['miscounted'].get(op, '')} |"
    yield from ["", f"Equal sizes of {len(unseen)} more ops are not believed, since no call of them ran: "
                + ", ".join(unseen) + "."]
    yield from ["", "Believed although sizes that differ were found:", ""]
    yield from (f"- {op}: {why}" for op, why in (table["believed"] | table["of pairs"]).items())
    yield from ["", "No call ran of:", ""]
    yield from (f"- {len(ops)} ({why}): {', '.join(ops)}" for why, ops in table["not run"].items())
    yield from ["", "Not called at all:", ""]
    yield from (f"- {count}: {why}" for why, count in table["left out"].items())
