"""Whole models under TensorFlow, XLA (jit_compile=True) and tf_stitch, interleaved in one run.

Each backend runs a workload in a process of its own, in turns; the others wait. So does a function that is called with
the same arguments and variables and does nothing ("call"): no backend can be faster than that. Writes a list of
{"workload", "mode", "tf_us", "xla_us", "stitch_us", "call_us", ...}, and a table beside it. Rows that are there already
stay, failed ones are repeated.

    python -m tools.region_benchmark                                     # a GPU: benchmarks/h200_regions.md
    python -m tools.region_benchmark --again --workloads=mlp_4x256_batch256
    python -m tools.region_benchmark --workloads=tiny --out=/tmp/try.json
    python -m tools.region_benchmark --join=/tmp/elsewhere.json          # rows of another machine; measures nothing
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark import workers
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.profitability_facts import DECIDED_SECONDS
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, read_rows, write_rows
from tools.benchmark.region_rows import SHORT, WORKLOADS, is_done, joined, table

ROOT = Path(__file__).resolve().parents[1]


TURN_WARM_UP = 5
"""Calls at the beginning of a turn that are not timed, at least; a quarter of those that are."""

_WORKLOADS = flags.DEFINE_list("workloads", list(WORKLOADS), "what to run")
_MODES = flags.DEFINE_list("modes", ["infer", "train"], "infer, train")
_BACKENDS = flags.DEFINE_list("backends", list(SHORT), "with what")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "turns of each backend")
_CALLS = flags.DEFINE_integer("calls", 30, "calls of a turn, at least")
_SECONDS = flags.DEFINE_float("turn_seconds", 0.4, "of a turn, at least: a process that waited finds caches cold")
_WARM_UP = flags.DEFINE_integer("warm_up", 150, "calls before the first turn: CUDA graphs are made; the check decides")
_AGAIN = flags.DEFINE_bool("again", False, "measure rows that are there, too")
_JOIN = flags.DEFINE_list("join", [], "results whose rows go into --out, in place of those there; nothing is measured")
_OUT = flags.DEFINE_string("out", str(raw_rows("h200_regions")), "raw rows; the page goes to benchmarks/")

Result = workers.Result


def measure(workload: str, mode: str) -> Result:
    """Medians and quartiles of each backend's microseconds per call, seconds of its first call (of tf_stitch also that
    of a second process), peaks of memory ("peak_bytes" from the start on, "steady_peak_bytes" in the last turn), and
    how far its result after equally many calls is from TensorFlow's."""
    started: dict[str, workers.Worker] = {}
    row: Result = {"workload": workload, "mode": mode, "failures": {}, "first_call_s": {}, "peak_bytes": {},
                   "steady_peak_bytes": {}, "difference": {}, "quartiles_us": {}}  # fmt: skip
    times: dict[str, list[float]] = {}
    answers: dict[str, Result] = {}
    results: dict[str, float] = {}
    length: dict[str, int] = {}
    created = {backend: _worker(workload, mode, backend) for backend in _BACKENDS.value}  # they import side by side
    second = _worker(workload, mode, "tf_stitch") if "tf_stitch" in created else None
    for worker in (*created.values(), *([second] if second else [])):
        worker.wait()
    for backend, worker in created.items():  # one after another: starting is work, too
        try:
            early, start = [worker.ask(0, 1), worker.ask(0, 9), worker.ask(_WARM_UP.value, 1)], time.monotonic()
            while backend == "tf_stitch" and time.monotonic() < start + DECIDED_SECONDS:
                early.append(worker.ask(_CALLS.value, 1))
            row["first_call_s"][backend] = early[0]["seconds"]
            results[backend] = early[1]["result"]
            length[backend] = max(_CALLS.value, int(_SECONDS.value / min(answer["seconds"] for answer in early)))
            row["peak_bytes"][backend] = max(answer.get("peak_bytes", 0) for answer in early)
        except RuntimeError as error:
            row["failures"][backend] = str(error)
            continue
        started[backend], times[backend] = worker, []
    if second is not None:
        row["first_call_s"]["tf_stitch again"] = second.ask(0, 1)["seconds"]
        second.close()
    want = results.get("tensorflow")
    row["difference"] = {b: abs(results[b] - want) / abs(want) for b in results if b != "call"} if want else {}
    for turn in range(_ROUNDS.value):
        order = list(started)
        for backend in order[turn % len(order):] + order[:turn % len(order)]:
            answers[backend] = started[backend].ask(max(TURN_WARM_UP, length[backend] // 4), length[backend])
            times[backend].append(answers[backend]["seconds"] / length[backend] * 1e6)
    for backend, values in times.items():
        row[f"{SHORT[backend]}_us"] = statistics.median(values)
        row["quartiles_us"][backend] = statistics.quantiles(values, n=4) if len(values) > 1 else values
        row["steady_peak_bytes"][backend] = answers[backend].get("peak_bytes", 0)
        row["peak_bytes"][backend] = max(row["peak_bytes"][backend], row["steady_peak_bytes"][backend])
    row["graphs"] = answers.get("tf_stitch", {}).get("graphs", [])
    row["tf_stitch"] = started["tf_stitch"].said() if "tf_stitch" in started else []
    for worker in started.values():
        worker.close()
    return row


def _worker(workload: str, mode: str, backend: str) -> workers.Worker:
    return workers.Worker("region_worker", workload, mode, backend, backend=backend)


def main(_: Sequence[str]) -> None:
    made = {"machine": describe_cpu() | describe_gpu(), "command": command_line(sys.argv),
            "rounds": _ROUNDS.value, "calls": _CALLS.value, "turn_seconds": _SECONDS.value}  # fmt: skip
    out = Path(_OUT.value)
    rows: list[Result] = read_rows(out) if out.exists() else []
    for path in _JOIN.value:
        rows = joined(rows, read_rows(Path(path)))
    for workload in [] if _JOIN.value else _WORKLOADS.value:
        for mode in _MODES.value:
            if mode not in WORKLOADS.get(workload, ("infer", "train")):
                continue
            if is_done(rows, workload, mode, _BACKENDS.value) and not _AGAIN.value:
                print(workload, mode, "is there (--again measures it)", file=sys.stderr, flush=True)
                continue
            print(workload, mode, "...", file=sys.stderr, flush=True)
            rows = joined(rows, [measure(workload, mode) | made])
            write_rows(out, rows)
    write_rows(out, rows)
    page_of(out).write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    app.run(main)
