"""Memory-intensive subgraphs on this machine's CPU: TensorFlow's own ops, XLA (jit_compile=True) and tf_stitch, each in
a process of its own, in turns. The profitability check is off, and lone ops are stitched, too: what is timed are our
kernels.

    python -m tools.cpu_subgraphs                          # benchmarks/cpu_subgraphs.md and raw/cpu_subgraphs.json.gz
    python -m tools.cpu_subgraphs --only=softmax --rounds=3 --out=/tmp/try.json
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from absl import app, flags

from tools.benchmark import workers
from tools.benchmark.cpu_cases import CPU_CASES, CpuCase
from tools.benchmark.cpu_table import table
from tools.benchmark.machine import describe_cpu
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows

ROOT = Path(__file__).resolve().parents[1]


COLUMNS = {"tf": "tf_us", "xla": "xla_us", "stitch": "stitch_us"}
CALLS, TOLERANCE = 3, 1e-3
"""Calls before results are compared (Adam's differ from call to call), and by how much means and norms may differ."""
COPIED = 1 << 28
"""Bytes of the copy that gives the floor's bandwidth."""

_ONLY = flags.DEFINE_string("only", "", "subgraphs whose name has this")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "turns of each backend")
_SECONDS = flags.DEFINE_float("seconds", 0.3, "of a turn")
_OUT = flags.DEFINE_string("out", str(raw_rows("cpu_subgraphs")), "raw rows; the page goes to benchmarks/")


def copy_gbps() -> float:
    """10^9 bytes a second that a copy by all cores reads and writes."""
    import tensorflow as tf

    source = tf.ones(COPIED // 4)
    copy = tf.function(tf.negative)
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        copy(source)
        times.append(time.perf_counter() - begin)
    return 2 * COPIED / median(times) / 1e9


def measure(case: CpuCase, gbps: float) -> dict[str, Any]:
    """A row; times are medians of all turns, in microseconds."""
    row: dict[str, Any] = {"name": case.name, "set": "cpu", "floor_us": case.floor_bytes / gbps / 1e3,
                           "command": "python -m tools.cpu_subgraphs", "machine": describe_cpu()}  # fmt: skip
    processes = {short: workers.Worker("cpu_worker", case.name, backend, backend=backend,
                                       variables={"TF_STITCH_GUARD": "0", "TF_STITCH_MIN_REGION": "1"})
                 for short, backend in workers.BACKENDS.items()}  # fmt: skip
    results = {short: process.ask("results", CALLS)["results"] for short, process in processes.items()}
    row["right"] = all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
                       for short in ("xla", "stitch")
                       for found, wanted in zip(results[short], results["tf"], strict=True)
                       for a, b in zip(found, wanted, strict=True))  # fmt: skip
    times: dict[str, list[float]] = {short: [] for short in processes}
    for _ in range(_ROUNDS.value + 1):
        for short, process in processes.items():
            times[short].append(median(process.ask("run", _SECONDS.value)["us"]))
    for short, process in processes.items():
        process.close()
        row[COLUMNS[short]] = median(times[short][1:])
        row[f"{short}_turns_us"] = [round(us, 1) for us in times[short][1:]]
    report = processes["stitch"].report() or {}
    row["launches"] = len(report.get("kernels", []))
    return row


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError("no arguments, please, but flags")
    gbps, rows, out = copy_gbps(), list[dict[str, Any]](), Path(_OUT.value)
    for case in (case for case in CPU_CASES if _ONLY.value in case.name):
        rows.append(measure(case, gbps))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        write_rows(out, rows)
        page_of(out).write_text(table(rows))
    if not all(row["right"] for row in rows):
        sys.exit("results differ")


if __name__ == "__main__":
    app.run(main)
