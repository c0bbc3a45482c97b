"""Profiler counters of kernels, by Nsight Compute."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

DRAM_READ, DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
L2_WRITTEN = "lts__t_sectors_srcunit_tex_op_write.sum"
"""Sectors that the processors wrote into the L2 cache."""
METRICS = {DRAM_READ: "byte", DRAM_WRITTEN: "byte", L2_WRITTEN: "sector"}
"""Counters and their units. They fit one pass: more would run a launch again, over caches that the first run left."""
SECTOR_BYTES = 32


class ProfilerError(Exception):
    """Nsight Compute is not there, refused to run, or did not print what was asked for."""


@dataclass(frozen=True)
class Counted:
    """Bytes of one launch.

    Attributes:
        read: from DRAM.
        written: to DRAM before the launch ended.
        stored: into the L2 cache, from where what has not been written yet will go to DRAM.
    """

    kernel: str
    read: int
    written: int
    stored: int


def profile(command: Sequence[str], kernels: str, log: Path, limit: float) -> list[Counted]:
    """Runs a program and counts its launches of kernels whose name matches the regular expression, in their order.

    Caches and clocks stay as they are.

    Raises:
        ProfilerError: with the last lines of what Nsight Compute or the program said.
    """
    ncu = ["ncu", "--csv", "--print-units", "base", "--metrics", ",".join(METRICS), "--cache-control", "none",
           "--clock-control", "none", "--kernel-name", f"regex:{kernels}", "--log-file", str(log)]
    try:
        done = subprocess.run([*ncu, *command], capture_output=True, text=True, check=False, timeout=limit)
    except FileNotFoundError:
        raise ProfilerError("ncu is not on the PATH") from None
    except subprocess.TimeoutExpired:
        raise ProfilerError(f"ncu took longer than {limit:.0f} s") from None
    said = log.read_text() if log.exists() else ""
    if done.returncode:
        raise ProfilerError("\n".join((said + done.stdout + done.stderr).splitlines()[-8:]))
    return parse(said.splitlines())


def parse(lines: Iterable[str]) -> list[Counted]:
    """Launches of `ncu --csv --print-units base`: a line for each counter of each, among lines that begin with ==.

    Raises:
        ProfilerError: a counter is missing, or in another unit.
    """
    names: dict[str, str] = {}
    found: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(line for line in lines if line.startswith('"')):
        metric, unit = row["Metric Name"], row["Metric Unit"]
        if metric not in METRICS:
            continue
        if unit != METRICS[metric]:
            raise ProfilerError(f"ncu counts {metric} in {unit!r}, not in {METRICS[metric]!r}")
        names[row["ID"]] = row["Kernel Name"]
        found.setdefault(row["ID"], {})[metric] = _number(row["Metric Value"])
    missing = {metric for counts in found.values() for metric in METRICS if metric not in counts}
    if missing or not found:
        raise ProfilerError(f"ncu printed no {', '.join(sorted(missing or METRICS))}")
    return [Counted(names[i], c[DRAM_READ], c[DRAM_WRITTEN], c[L2_WRITTEN] * SECTOR_BYTES) for i, c in found.items()]


def _number(text: str) -> int:
    try:
        return round(float(text.replace(",", "")))
    except ValueError:
        raise ProfilerError(f"ncu printed {text!r} where a number belongs") from None
