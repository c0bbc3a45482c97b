"""Whole models under TensorFlow, XLA (jit_compile=True) and tf_stitch, interleaved in one run.

Each backend runs a workload in a process of its own, in turns; the others wait. So does a function that is called with
the same arguments and variables and does nothing ("call"): no backend can be faster than that. Writes a list of
{"workload", "mode", "tf_us", "xla_us", "stitch_us", "call_us", ...}, and a table beside it. Rows that are there already
stay, failed ones are repeated.

    python tools/region_benchmark.py                                     # a GPU: benchmarks/h200_regions.{json,md}
    python tools/region_benchmark.py --again --workloads=mlp_4x256_batch256
    python tools/region_benchmark.py --workloads=tiny --out=/tmp/try.json
    python tools/region_benchmark.py --join=/tmp/elsewhere.json          # rows of another machine; measures nothing
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from benchmarking import workers  # noqa: E402
from benchmarking.guard_facts import DECIDED_SECONDS  # noqa: E402
from benchmarking.machine import describe_cpu, describe_gpu  # noqa: E402

SHORT = {name: short for short, name in workers.BACKENDS.items()} | {"call": "call"}
WORKLOADS = {"encoder_12x768_batch1_length128": ("infer", "train"),
             "encoder_12x768_batch32_length128": ("infer", "train"),
             "encoder_6x512_batch8_length64": ("infer", "train"),
             "mlp_4x256_batch256": ("train",)}  # fmt: skip

TURN_WARM_UP = 5
"""Calls at the beginning of a turn that are not timed."""

_WORKLOADS = flags.DEFINE_list("workloads", list(WORKLOADS), "what to run")
_MODES = flags.DEFINE_list("modes", ["infer", "train"], "infer, train")
_BACKENDS = flags.DEFINE_list("backends", list(SHORT), "with what")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "turns of each backend")
_CALLS = flags.DEFINE_integer("calls", 30, "calls of a turn")
_WARM_UP = flags.DEFINE_integer("warm_up", 150, "calls before the first turn: CUDA graphs are made; the guard decides")
_AGAIN = flags.DEFINE_bool("again", False, "measure rows that are there, too")
_JOIN = flags.DEFINE_list("join", [], "results whose rows go into --out, in place of those there; nothing is measured")
_OUT = flags.DEFINE_string("out", str(ROOT / "benchmarks" / "h200_regions.json"), "the result; a .md goes beside it")

BACKENDS = list(workers.BACKENDS.values())
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
            answers[backend] = started[backend].ask(TURN_WARM_UP, _CALLS.value)
            times[backend].append(answers[backend]["seconds"] / _CALLS.value * 1e6)
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
    return workers.Worker("region_worker.py", workload, mode, backend, backend=backend)


def is_done(rows: Sequence[Result], workload: str, mode: str, backends: Sequence[str]) -> bool:
    """Whether the row is there, with these backends, and nothing failed."""
    return any((row["workload"], row["mode"]) == (workload, mode) and not row["failures"]
               and all(f"{SHORT[backend]}_us" in row for backend in backends) for row in rows)  # fmt: skip


def joined(rows: Sequence[Result], more: Sequence[Result]) -> list[Result]:
    """All of them, those of `more` in place of others of the same workload and mode, in the order of WORKLOADS."""
    found = {(row["workload"], row["mode"]): row for row in (*rows, *more)}
    order = list(WORKLOADS)
    return sorted(found.values(), key=lambda row: (order.index(row["workload"]) if row["workload"] in order
                                                   else len(order), row["mode"]))  # fmt: skip


def table(rows: Sequence[Result]) -> str:
    """The result as Markdown."""
    runs = list(dict.fromkeys(map(_run, rows)))
    lines = ["# Whole models on a GPU", "",
             "Microseconds per call: the median of turns, backends interleaved, float32, TF32 as TensorFlow's default. "
             "Another workload, requests of many lengths, is in [h200_dynamic](h200_dynamic.md).", "",
             "| workload | mode | TensorFlow | XLA | tf_stitch | a call that does nothing | TensorFlow / tf_stitch "
             "| XLA / tf_stitch | first call s: TensorFlow / XLA / tf_stitch / tf_stitch in a second process "
             "| peak MiB: TensorFlow / XLA / tf_stitch | in the last turn "
             "| CUDA graph launch, us of the host: all / no new addresses | differs by | run |",
             "| --- " * 14 + "|"]  # fmt: skip
    failures: list[str] = []
    for row in rows:
        us = [row.get(f"{name}_us") for name in SHORT.values()]
        cells = [row["workload"], row["mode"], *("-" if u is None else f"{u:.0f}" for u in us)]
        cells += ["-" if u is None or us[2] is None else f"{u / us[2]:.2f}" for u in us[:2]]
        firsts = [row["first_call_s"].get(b, float("nan")) for b in (*BACKENDS, "tf_stitch again")]
        cells.append(" / ".join(f"{seconds:.1f}" for seconds in firsts))
        for peaks in (row["peak_bytes"], row.get("steady_peak_bytes", {})):
            cells.append(" / ".join(f"{peaks[b] / 2**20:.0f}" if b in peaks else "-" for b in BACKENDS))
        cells.append(", ".join(map(_launch_words, filter(lambda g: g["launches"], row["graphs"]))))
        cells += [f"{row['difference'].get('tf_stitch', float('nan')):.0e}", str(runs.index(_run(row)) + 1)]
        lines.append("| " + " | ".join(cells) + " |")
        for backend, failure in row["failures"].items():
            failures += ["", f"{row['workload']} {row['mode']} failed with {backend}:", "", "```", failure, "```"]
    lines += ["", "Runs:", "", *(f"{number}. {run}" for number, run in enumerate(runs, 1)), *failures]
    return "\n".join(lines) + "\n"


def _run(row: Result) -> str:
    """How, where and when a row was measured."""
    machine = ", ".join(f"{key} {value}" for key, value in row["machine"].items())
    return f"`{row['command']}`: {row['rounds']} turns of {row['calls']} calls; {machine}."


def _launch_words(graphs: Result) -> str:
    """Microseconds of the host for a launch, and for one that found all its addresses."""
    return " / ".join(f"{graphs[f'{which}_ns'] / max(graphs[count], 1) / 1e3:.0f}" if count in graphs else "-"
                      for which, count in (("host", "launches"), ("known", "known")))


def main(_: Sequence[str]) -> None:
    made = {"machine": describe_cpu() | describe_gpu(), "command": " ".join(["python", *sys.argv]),
            "rounds": _ROUNDS.value, "calls": _CALLS.value}  # fmt: skip
    out = Path(_OUT.value)
    rows: list[Result] = json.loads(out.read_text()) if out.exists() else []
    for path in _JOIN.value:
        rows = joined(rows, json.loads(Path(path).read_text()))
    for workload in [] if _JOIN.value else _WORKLOADS.value:
        for mode in _MODES.value:
            if mode not in WORKLOADS.get(workload, ("infer", "train")):
                continue
            if is_done(rows, workload, mode, _BACKENDS.value) and not _AGAIN.value:
                print(workload, mode, "is there (--again measures it)", file=sys.stderr, flush=True)
                continue
            print(workload, mode, "...", file=sys.stderr, flush=True)
            rows = joined(rows, [measure(workload, mode) | made])
            out.write_text(json.dumps(rows, indent=1) + "\n")
    out.write_text(json.dumps(rows, indent=1) + "\n")
    out.with_suffix(".md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    app.run(main)
