"""First figures of drawn networks, as committed: a seed that is there stays as it is."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

FIELDS = ("seed", "network", "backend", "median_ms", "least_ms", "most_ms", "device_ms", "busy", "first_call_s",
          "peak_mib", "losses", "commit", "date", "gpu", "driver", "versions")  # fmt: skip
Row = Mapping[str, object]


class SeedOnRecordError(ValueError):
    """A network is on record, whose first figures stay."""


def rows_of(file: Path) -> list[dict[str, str]]:
    """Oldest first."""
    if not file.exists():
        return []
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def seeds_of(file: Path) -> frozenset[int]:
    return frozenset(int(row["seed"]) for row in rows_of(file))


def append(file: Path, rows: Sequence[Row]) -> None:
    """
    Raises:
        SeedOnRecordError: one of the seeds is there; nothing is written.
    """
    known = sorted({int(str(row["seed"])) for row in rows} & seeds_of(file))
    if known:
        raise SeedOnRecordError(f"{file}: seeds {known} are on record; their first figures stay")
    fresh = not file.exists()
    with file.open("a", newline="") as text:
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerows(rows)
