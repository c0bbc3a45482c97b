"""Rows of tools.memory_peaks, and their page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from tools.benchmark.markdown import table

MIB = 1 << 20
SETTLED = 5
"""Calls at the end."""
HEADER = ("case", "by", "before", "first call", "whole run", "settled", "whole run / settled", "arena", "least",
          "first call, s", "call, ms", "commit")
ABOUT = """Of a process that trains, MiB that the framework's allocator has handed out: before the first call, at most
in the first call, in any, and in the last (median). Arena: what kernels hand to each other takes; least: what it
would take in the best order. JAX's allocator counts from the start on. Times are rough: processes run side by side."""

Row: TypeAlias = dict[str, Any]


def row(case: str, backend: str, said: dict[str, Any], report: Path, commit: str) -> Row:
    """What a process found, and its report, where it has one."""
    peaks = said["peaks"]
    found = {"case": case, "by": backend, "before": said["before"] / MIB, "first call": peaks[0] / MIB,
             "whole run": max(peaks) / MIB, "settled": median(peaks[-SETTLED:]) / MIB if said["by_call"] else None,
             "first call, s": said["seconds"][0], "call, ms": 1e3 * median(said["seconds"][-SETTLED:]),
             "loss": said["loss"], "commit": commit, "remarks": []}
    if not report.exists():
        return found
    document = json.loads(report.read_text())
    builds = [build for build in document["builds"] if build["memory"]]
    remarks = {remark["reason"] for remark in document["remarks"] if remark["stage"] in ("memory", "profitability")}
    return found | {"arena": sum(build["arena_bytes"] for build in builds) / MIB,
                    "least": sum(build["memory"]["least_bytes"] for build in builds) / MIB,
                    "regions": len(document["regions"]),
                    "runs by TensorFlow": sum(region["fallbacks"] for region in document["regions"]),
                    "remarks": sorted(remarks)}


def cells(found: Row) -> list[str]:
    """A line of the table."""
    settled = found["settled"]
    ratio = None if settled is None else found["whole run"] / settled
    whole = [found[key] for key in HEADER[2:6]]
    return [found["case"], found["by"], *(_number(n, ",.0f") for n in whole), _number(ratio, ".2f"),
            *(_number(found.get(key), ",.0f") for key in ("arena", "least")), _number(found["first call, s"], ".1f"),
            _number(found["call, ms"], ".1f"), found["commit"]]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def page(document: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    yield from ("# Peak memory of training", "", ABOUT, "", f"{machine}; {document['date']}.", "",
                f"Made by `{document['command']}`.", "")
    yield from table(HEADER, [cells(found) for found in document["rows"]])
