"""Measures models of the zoo on several backends, interleaved; one row for each model, mode and dtype."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.benchmark.kernel_counts import with_regions
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.model_cases import ModelCase, shapes_of, sizes_of
from tools.benchmark.pattern_facts import graph_size, pattern_facts
from tools.benchmark.profitability_facts import DECIDED_SECONDS, profitability_cell, profitability_facts
from tools.benchmark.raw_rows import command_line, read_rows, write_rows
from tools.benchmark.workers import ABLATIONS, BACKENDS, CLUSTERS, Result, Worker

COMPARED_STEPS = 5
TRIED_RUNS = 4
"""Of each shape, before kernels are counted: in the third one the library's matmuls are tried."""
MOST_STEPS = 50
"""Of a turn."""


@dataclass(frozen=True)
class Plan:
    """How a row is measured.

    Attributes:
        warm_up: steps of tf_stitch with each shape before the first turn, by when the profitability check has decided;
            others take PLAIN_WARM_UP.
        least: seconds of that, at least.
        rounds: turns of each backend.
        seconds: of warm-up, at most, and of all turns.
        profiled: steps under the profiler, after the turns.
        compile_limit: seconds that a call before the turns may take; a backend that takes longer is left out.
        together: rows whose processes compile at the same time, which takes less time in all; first calls then say
            little. Turns are never run beside anything.
    """

    warm_up: int = 150
    rounds: int = 8
    seconds: float = 60
    profiled: int = 2
    compile_limit: float = 300
    together: int = 1
    least: float = DECIDED_SECONDS


PLAIN_WARM_UP = 8


def measure_models(cases: Sequence[ModelCase], backends: Sequence[str], plan: Plan, out: Path) -> list[Result]:
    """Rows of all cases. Rows that `out` already holds are kept; failed ones are repeated when the others are there. It
    is written after each row."""
    rows: list[Result] = read_rows(out) if out.exists() else []
    done = {row["case"] for row in rows if not row["failures"] and set(backends) <= set(row["backends"])}
    failed, order = {row["case"] for row in rows if row["failures"]}, [str(case) for case in cases]
    missing = sorted((case for case in cases if str(case) not in done), key=lambda case: str(case) in failed)
    number = len(cases) - len(missing)
    for start in range(0, len(missing), plan.together):
        batch = [RowMeasurement(case, backends, plan) for case in missing[start:start + plan.together]]
        _progress(number, len(cases), f"{batch[0].row['case']} ...")
        if plan.together > 1:
            with ThreadPoolExecutor(len(batch)) as pool:
                list(pool.map(RowMeasurement.compile, batch))
        for measurement in batch:
            case = measurement.row["case"]
            _progress(number, len(cases), case)
            rows = [row for row in rows if row["case"] != case]
            rows.append(measurement.measure())
            rows.sort(key=lambda row: order.index(row["case"]) if row["case"] in order else -1)
            _write(rows, out)
            number += 1
    _progress(len(cases), len(cases), "done")
    print(file=sys.stderr)
    return rows


def _write(rows: Sequence[Result], out: Path) -> None:
    """At once: whoever stops the program in between leaves the rows before."""
    fresh = out.with_name(f"fresh_{out.name}")
    write_rows(fresh, rows)
    fresh.replace(out)


class RowMeasurement:
    """One row in the making.

    Attributes:
        row: per backend B the median B_us, its quartiles, B_first_us, B_kernels by class and in all with the
            microseconds in them, B_memory (see `_peaks`); what failed or took too long, with the reason.
    """

    def __init__(self, case: ModelCase, backends: Sequence[str], plan: Plan) -> None:
        self._case, self._backends, self._plan = case, backends, plan
        self.row: Result = {
            "case": str(case), **asdict(case), "sizes": sizes_of(case), "shapes": shapes_of(case),
            "backends": list(backends),
            "plan": asdict(plan), "command": command_line(sys.argv),
            "machine": describe_cpu() | describe_gpu(),
            "variables": {k: v for k, v in os.environ.items() if k.startswith("TF_STITCH") and k != "TF_STITCH_CACHE"},
            "failures": {}, "left_out": {},
        }  # fmt: skip
        self._workers: dict[str, Worker] = {}
        self._outside_graphs: Worker | None = None
        self._losses: dict[str, list[float]] = {}

    def compile(self) -> None:
        """The first steps of all backends, at the same time."""
        self._start()
        if self._counts_outside_graphs():
            self._outside_graphs = self._worker("stitch", {"TF_STITCH_CUDA_GRAPHS": "0"})
        with ThreadPoolExecutor(len(self._backends)) as pool:
            list(pool.map(self._first_steps, list(self._workers)))

    def _start(self) -> None:
        for backend in self._backends:  # they import and build at the same time
            self._workers[backend] = self._worker(backend)

    def measure(self) -> Result:
        try:
            if not self._workers:
                self._start()
            for backend in list(self._workers):  # none works while another is timed
                self._workers[backend].wait()
            for backend in list(self._workers):
                self._warm_up(backend)
            self._compare_losses()
            early = {b: self._ask(b, "memory", 0) for b in list(self._workers)}
            times = self._turns()
            counts = {b: self._ask(b, "profile", self._plan.profiled) for b in list(self._workers)}
        finally:
            said = {backend: worker.said() for backend, worker in self._workers.items()}
            if self._outside_graphs is not None and "stitch" not in self._workers:
                self._outside_graphs.close()
        if counts.get("stitch") is not None and self._counts_outside_graphs():
            counts["stitch"] |= self._kernels_outside_graphs()
        for backend, worker in self._workers.items():
            self._write_times(backend, times[backend])
            self._write_counts(backend, early[backend], counts[backend], worker.report())
        self.row["said"] = said.get("stitch", [])
        return self.row

    def _worker(self, backend: str, variables: Mapping[str, str] | None = None) -> Worker:
        if backend == "xla" and self._case.style == "tf1":
            variables = CLUSTERS
        name = "tf_stitch" if backend in ABLATIONS else BACKENDS[backend]
        variables = ABLATIONS.get(backend, {}) | (variables or {})
        return Worker("worker", self._case, name, backend=name, variables=variables)

    def _first_steps(self, backend: str) -> None:
        """COMPARED_STEPS, which compile, and what tf_stitch builds behind them: turns are of what a long run sees."""
        losses: list[float] = []
        while len(losses) < min(COMPARED_STEPS, self._warm_up_steps(backend)):
            answer = self._ask(backend, "run", 1, limit=self._plan.compile_limit)
            if answer is None:
                return
            if not losses:
                self.row[f"{backend}_first_us"] = answer["seconds"][0] * 1e6
            losses += answer["losses"]
        self._losses[backend] = losses
        if backend in ("stitch", *ABLATIONS):
            self.row[f"{backend}_settled"] = self._ask(backend, "settle", self._plan.compile_limit)

    def _warm_up(self, backend: str) -> None:
        """The first steps, and then more within the plan's seconds."""
        if backend not in self._losses:
            self._first_steps(backend)
        start, steps = time.monotonic(), len(self._losses.get(backend, ()))
        least = self._plan.least if backend in ("stitch", *ABLATIONS) else 0.0
        while backend in self._workers:
            seconds = time.monotonic() - start
            if seconds > self._plan.seconds or (steps >= self._warm_up_steps(backend) and seconds > least):
                break
            steps += self._ask(backend, "run", 1, limit=self._plan.compile_limit) is not None
        self.row[f"{backend}_warm_up_steps"] = steps

    def _warm_up_steps(self, backend: str) -> int:
        if backend in ("stitch", *ABLATIONS):
            return self._plan.warm_up * self.row["shapes"]
        return min(PLAIN_WARM_UP, self._plan.warm_up)

    def _turns(self) -> dict[str, list[float]]:
        """Seconds of each backend's steps, in turns of about equal time."""
        times: dict[str, list[float]] = {backend: [] for backend in self._workers}
        share = self._plan.seconds / (self._plan.rounds * max(len(times), 1))
        steps = dict.fromkeys(times, 1)
        for turn in range(self._plan.rounds):
            order = list(self._workers)
            shift = turn % max(len(order), 1)
            for backend in order[shift:] + order[:shift]:
                answer = self._ask(backend, "run", steps[backend])
                if answer is not None:
                    times[backend] += answer["seconds"]
                    steps[backend] = max(2, min(MOST_STEPS, int(share / statistics.median(times[backend]))))
        return times

    def _ask(self, backend: str, *words: object, limit: float | None = None) -> Result | None:
        """The worker's answer. One that died or was too slow leaves the row with its reason, and gets no more turns."""
        try:
            return self._workers[backend].ask(*words, limit=limit)
        except TimeoutError as error:
            self.row["left_out"][backend] = str(error)
        except RuntimeError as error:
            self.row["failures"][backend] = str(error)
        del self._workers[backend]
        return None

    def _compare_losses(self) -> None:
        plain = self._losses.get("tf")
        if plain is not None:
            self.row["loss_difference"] = {b: _difference(plain, v) for b, v in self._losses.items() if b != "tf"}

    def _counts_outside_graphs(self) -> bool:
        return "stitch" in self._backends and bool(self.row["machine"].get("gpu"))

    def _kernels_outside_graphs(self) -> Result:
        """The kernel counts of a process of its own: the profiler sees no kernels inside CUDA graphs."""
        worker = self._outside_graphs or self._worker("stitch", {"TF_STITCH_CUDA_GRAPHS": "0"})
        start, steps = time.monotonic(), 0
        least = max(COMPARED_STEPS, TRIED_RUNS * self.row["shapes"])
        try:
            while steps < least or (steps < self._plan.warm_up
                                    and time.monotonic() - start < self._plan.seconds / 4):
                worker.ask("run", 1, limit=self._plan.compile_limit)
                steps += 1
            return {k: v for k, v in worker.ask("profile", self._plan.profiled).items() if not k.endswith("_mib")}
        except (RuntimeError, TimeoutError) as error:
            self.row["failures"]["stitch outside graphs"] = str(error)
            return {}
        finally:
            worker.close()

    def _write_times(self, backend: str, seconds: Sequence[float]) -> None:
        first, median, third = (value * 1e6 for value in statistics.quantiles(seconds, n=4))
        self.row |= {f"{backend}_us": median, f"{backend}_quartiles_us": [first, third],
                     f"{backend}_steps": len(seconds)}  # fmt: skip

    def _write_counts(self, backend: str, early: Result | None, counts: Result | None, report: Result | None) -> None:
        if early is None or counts is None:
            return
        classes = with_regions(counts, report)
        self.row |= {f"{backend}_kernels": sum(classes.values()), f"{backend}_kernels_by_class": classes,
                     f"{backend}_class_us": counts["class_us"], f"{backend}_top_kernels": counts["kernels"],
                     f"{backend}_library_kernels": counts["library"],
                     f"{backend}_memory": _peaks(early, counts)}  # fmt: skip
        if report is not None and backend == "stitch":
            self.row |= {"graph_nodes": graph_size(report), "patterns": pattern_facts(report),
                         "guard": profitability_facts(report)}  # fmt: skip


def _peaks(early: Result, late: Result) -> dict[str, float]:
    """MiB: "host_mib", and on a GPU "gpu_mib" from the start on and "gpu_steady_mib" since the first turn: before, the
    guard has run TensorFlow's ops, too, and XLA has tried kernels."""
    if "gpu_mib" not in late:
        return {"host_mib": late["host_mib"]}
    return {"host_mib": late["host_mib"], "gpu_mib": max(early["gpu_mib"], late["gpu_mib"]),
            "gpu_steady_mib": late["gpu_mib"]}  # fmt: skip


def _difference(wanted: Sequence[float], actual: Sequence[float]) -> float:
    """Largest relative difference."""
    return max(abs(a - b) / max(abs(a), 1e-30) for a, b in zip(wanted, actual, strict=True))


def _progress(done: int, count: int, what: str) -> None:
    width = 30
    full = done * width // max(count, 1)
    print(f"\r[{'#' * full}{'.' * (width - full)}] {done}/{count} {what:50}", end="", file=sys.stderr, flush=True)


def table(rows: Sequence[Result], backends: Sequence[str]) -> str:
    """The rows as Markdown."""
    heads = [f"{b}, ms" for b in backends] + [f"{b} / stitch" for b in backends if b != "stitch"]
    heads += [*(f"{b} kernels" for b in backends), "regions timed"]
    lines = ["| case | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for row in rows:
        times = [f"{row[f'{b}_us'] / 1e3:.2f}" if f"{b}_us" in row else "failed" for b in backends]
        ratios = [f"{row[f'{b}_us'] / row['stitch_us']:.2f}" if {f"{b}_us", "stitch_us"} <= row.keys() else "-"
                  for b in backends if b != "stitch"]  # fmt: skip
        kernels = ["+".join(f"{n:.0f}" for n in row[f"{b}_kernels_by_class"].values())
                   if f"{b}_kernels_by_class" in row else "-" for b in backends]  # fmt: skip
        check = profitability_cell(row["guard"]) if "guard" in row else "-"
        lines.append(f"| {row['case']} | " + " | ".join([*times, *ratios, *kernels, check]) + " |")
    lines += ["", "Kernels a step: memory-intensive + library calls + copies. Regions timed against the ops they "
              "replaced: how many run those ops since, and the largest ratio of the others."]  # fmt: skip
    for row in rows:
        for b, reason in (row["failures"] | row["left_out"]).items():
            lines.append(f"\n{row['case']} failed with {b}: {reason.splitlines()[-1] if reason else 'it died'}")
    return "\n".join(lines) + "\n"
