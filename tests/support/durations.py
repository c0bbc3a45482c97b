"""Seconds of each test file: those on record decide which files begin first; a run ends with its own beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

RECORD = Path(__file__).parents[1] / "durations.txt"
"""Lines of seconds and a file below tests/, the longest first: what `tools/test.sh --record-durations` writes. Files of
less than LEAST seconds have none."""
LEAST = 4.0
SHOWN = 10


def recorded() -> dict[str, float]:
    """Seconds by file."""
    rows = (line.split() for line in RECORD.read_text().splitlines())
    return {name: float(seconds) for seconds, name in rows}


def record(seconds: Mapping[str, float]) -> None:
    """Writes what a whole run took."""
    rows = [(taken, name) for name, taken in seconds.items() if taken >= LEAST]
    rows.sort(key=lambda row: (-row[0], row[1]))
    RECORD.write_text("".join(f"{taken:.1f} {name}\n" for taken, name in rows))


def summary(seconds: Counter[str], before: Mapping[str, float]) -> list[str]:
    """Lines for people: the slowest files, and all together, beside the record of the same files.

    Args:
        seconds: of files that ran.
    """
    known = sum(before.get(name, 0.0) for name in seconds)
    lines = [f"{sum(seconds.values()):.0f} s of {len(seconds)} files on all workers; on record {known:.0f} s"]
    for name, taken in seconds.most_common(SHOWN):
        on_record = f"{before[name]:.0f}" if name in before else "-"
        lines.append(f"{taken:8.1f} s, on record {on_record}: {name}")
    return lines
