"""Rows of first calls, and the page that is written from them (tools/first_calls_benchmark.py)."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tools.benchmark.markdown import table

BACKENDS = ("tensorflow", "cold", "warm")
TURN = (*BACKENDS, "tensorflow")
"""What is measured one after the other: later processes find more of the disk in memory."""


@dataclass(frozen=True)
class Row:
    """Of one process: its first call on processors and on the wall, all calls on the wall, the longest other one."""

    case: str
    backend: str
    processor_s: float
    wall_s: float
    all_s: float
    worst_s: float = math.nan


def ratios(rows: Iterable[Row], field: str) -> dict[str, dict[str, float]]:
    """Case -> backend -> median over TensorFlow's."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row.case, {}).setdefault(row.backend, []).append(getattr(row, field))
    medians = {case: {b: statistics.median(v) for b, v in values.items()} for case, values in found.items()}
    return {case: {b: value / of["tensorflow"] for b, value in of.items() if b != "tensorflow"}
            for case, of in medians.items() if "tensorflow" in of}


def lines(rows: Sequence[Row]) -> list[str]:
    """Markdown: ratios to TensorFlow's times, and by how many milliseconds a later call was longer at most."""
    fields = {field: ratios(rows, field) for field in ("processor_s", "wall_s", "all_s")}
    columns = [(field, backend) for field in fields for backend in BACKENDS[1:]]
    longer = {case: {backend: f"{more * 1e3:.0f}" for backend, more in of.items()} for case, of in stalls(rows).items()}
    body = [[case, *(f"{fields[field][case].get(backend, math.nan):.2f}" for field, backend in columns),
             *(longer[case].get(backend, "") for backend in BACKENDS[1:])] for case in fields["wall_s"]]
    known = [[of[backend] for of in fields[field].values() if backend in of] for field, backend in columns]
    body.append(["geometric mean", *(f"{statistics.geometric_mean(values or [math.nan]):.2f}" for values in known),
                 *[""] * len(BACKENDS[1:])])
    header = ["case", *(f"{field.removesuffix('_s')}, {backend}" for field, backend in columns),
              *(f"longer call, ms, {backend}" for backend in BACKENDS[1:])]
    return list(table(header, body))


def stalls(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Case -> backend -> seconds by which its longest call after the first is longer than TensorFlow's; medians."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row.case, {}).setdefault(row.backend, []).append(row.worst_s)
    medians = {case: {b: statistics.median(v) for b, v in values.items()} for case, values in found.items()}
    return {case: {b: value - of.get("tensorflow", math.nan) for b, value in of.items() if b != "tensorflow"}
            for case, of in medians.items()}


def page(rows: Sequence[Row], machine: Mapping[str, object]) -> str:
    """What --out is, in words and a table."""
    about = ", ".join(f"{key} {value}" for key, value in machine.items() if value)
    text = ("`python -m tools.first_calls_benchmark`: ratios to TensorFlow's seconds, of the first call on processors "
            f"and on the wall, and of the first {machine.get('calls', '')} on the wall. `longer call`: by how many "
            "milliseconds a call after the first was longer than the longest of TensorFlow's.")
    return "\n".join(["# First calls", "", *textwrap.wrap(text, 120), "", *textwrap.wrap(f"{about}.", 120), "",
                      *lines(rows), ""])  # fmt: skip
