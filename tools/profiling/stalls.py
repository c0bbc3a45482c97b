# ruff: noqa: E501
"""Issue slots, stalls for memory and occupancy of launches, by Nsight Compute's sections."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.profiling.counters import ProfilerError

SECTIONS = ("SchedulerStats", "WarpStateStats", "Occupancy")
ISSUED = "smsp__issue_active.avg.pct_of_peak_sustained_active"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
MEMORY = ("long_scoreboard", "lg_throttle")
"""Reasons to wait that are memory's: for what a load of global or local memory gives, for room to ask for more."""


def profile_stalls(command: Sequence[str], log: Path, limit: float) -> list[dict[str, float | None]]:
    """Runs a program that calls cudaProfilerStart and Stop around each launch that counts, under ncu.

    Returns:
        Of each launch, per cent: `issued` of the cycles of a scheduler, `memory` of the cycles of resident warps that wait
        for memory, `occupancy` of the warps that a processor can hold.

    Raises:
        ProfilerError: ncu is not there, refused to run, or printed something else.
    """
    sections = [word for section in SECTIONS for word in ("--section", section)]
    ncu = [
        "ncu",
        "--csv",
        "--page",
        "raw",
        "--profile-from-start",
        "off",
        "--clock-control",
        "none",
        *sections,
        "--log-file",
        str(log),
    ]
    if limit <= 0:
        raise ProfilerError("no time was left")
    try:
        done = subprocess.run([*ncu, *command], capture_output=True, text=True, check=False, timeout=limit)
    except FileNotFoundError:
        raise ProfilerError("ncu is not on the PATH") from None
    except subprocess.TimeoutExpired:
        raise ProfilerError(f"ncu took longer than {limit:.0f} s") from None
    said = log.read_text() if log.exists() else ""
    if done.returncode:
        raise ProfilerError("\n".join((said + done.stdout + done.stderr).splitlines()[-8:]))
    return parse_stalls(said.splitlines())


def parse_stalls(lines: Iterable[str]) -> list[dict[str, float | None]]:
    """Launches of `ncu --csv --page raw`: a line for each, below one of names and one of units.

    Raises:
        ProfilerError: there is none.
    """
    rows = list(csv.DictReader(line for line in lines if line.startswith('"')))
    launches = [row for row in rows if (row.get("ID") or "").isdecimal()]
    if not launches:
        raise ProfilerError("ncu printed no launch")
    return [_percent(row) for row in launches]


def _percent(row: dict[str, str]) -> dict[str, float | None]:
    latency = _number(row, LATENCY)
    waits = [_number(row, STALLED.format(reason)) for reason in MEMORY]
    memory = None if not latency or None in waits else 100 * sum(w for w in waits if w is not None) / latency
    return {
        "issued": _first(row, (ISSUED, "smsp__issue_active.avg.pct")),
        "memory": memory,
        "occupancy": _first(row, (OCCUPANCY, "sm__warps_active.avg.pct")),
    }


def _first(row: dict[str, str], names: Iterable[str]) -> float | None:
    return next((value for name in names if (value := _number(row, name)) is not None), None)


def _number(row: dict[str, str], name: str) -> float | None:
    try:
        return float(row[name].replace(",", ""))
    except (KeyError, ValueError, AttributeError):
        return None
