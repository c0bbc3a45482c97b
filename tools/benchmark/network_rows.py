"""What `tools.network_benchmark` measured, as committed: for each network its newest run."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
STITCH = "tf_stitch"
Row = Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """A network in one run.

    Attributes:
        rows: backend -> its row: milliseconds of a call, seconds of the first one, MiB.
    """

    network: str
    commit: str
    rows: Mapping[str, Row]

    def milliseconds(self, backend: str) -> float | None:
        """Median of a call; None if the backend was not run or had no first call in time."""
        return _number(self.rows.get(backend, {}).get("median_ms", ""))

    def speedup(self, over: str) -> float | None:
        """Time of `over` divided by tf_stitch's; None if one of them has none."""
        theirs, ours = self.milliseconds(over), self.milliseconds(STITCH)
        return theirs / ours if theirs and ours else None

    def first_call_ratio(self, over: str) -> float | None:
        """tf_stitch's first call divided by that of `over`; None if one of them has none."""
        ours, theirs = (_number(self.rows.get(backend, {}).get("first_call_s", "")) for backend in (STITCH, over))
        return ours / theirs if ours and theirs else None

    def peaks(self, over: str) -> tuple[float, float] | None:
        """Peak memory of tf_stitch and of `over` in the last turn, in MiB; None if one of them is not known."""
        ours, theirs = (_number(self.rows.get(backend, {}).get("steady_peak_mib", "")) for backend in (STITCH, over))
        return (ours, theirs) if ours and theirs else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_csv(name: str) -> list[dict[str, str]]:
    """The rows of a file in benchmarks/, oldest first."""
    with (BENCHMARKS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def titles() -> dict[str, str]:
    """Network -> what it is: batch, mode, element types."""
    return {row["network"]: row["title"] for row in read_csv("network_titles.csv")}


def newest(rows: Iterable[Row], beside: str) -> list[Comparison]:
    """Each network's newest run in which `beside` was run, else its newest one, in the order of first appearance.

    Rows of a run follow each other, each backend once; a run has one commit.
    """
    runs: dict[str, list[Comparison]] = {}
    for row in rows:
        network, commit, backend = row["network"], row["commit"], row["backend"]
        known = runs.setdefault(network, [])
        if not known or known[-1].commit != commit or backend in known[-1].rows:
            known.append(Comparison(network, commit, {}))
        known[-1] = Comparison(network, commit, {**known[-1].rows, backend: row})
    return [next((run for run in reversed(known) if {beside, STITCH} <= run.rows.keys()), known[-1])
            for known in runs.values()]


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
