"""Measures models of the zoo on several backends, interleaved; one row for each model, mode and dtype."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarking.kernel_counts import with_regions
from benchmarking.machine import describe_cpu, describe_gpu
from benchmarking.model_cases import ModelCase
from benchmarking.workers import BACKENDS, Result, Worker

COMPARED_STEPS = 5


@dataclass(frozen=True)
class Plan:
    """How a row is measured.

    Attributes:
        warm_up: steps before the first turn, the first call among them.
        rounds: turns of each backend.
        steps: steps of a turn.
        profiled: steps under the profiler, after the turns.
    """

    warm_up: int
    rounds: int
    steps: int
    profiled: int


def measure_models(cases: Sequence[ModelCase], backends: Sequence[str], plan: Plan, out: Path) -> list[Result]:
    """Rows of all cases. Rows that `out` already holds are kept, but for failed ones; it is written after each row."""
    rows: list[Result] = json.loads(out.read_text()) if out.exists() else []
    done = {row["case"] for row in rows if not row["failures"] and set(backends) <= set(row["backends"])}
    for number, case in enumerate(cases):
        _progress(number, len(cases), str(case))
        if str(case) in done:
            continue
        rows = [row for row in rows if row["case"] != str(case)]
        rows.append(measure_model(case, backends, plan))
        out.write_text(json.dumps(rows, indent=1) + "\n")
    _progress(len(cases), len(cases), "done")
    print(file=sys.stderr)
    return rows


def measure_model(case: ModelCase, backends: Sequence[str], plan: Plan) -> Result:
    """One row: per backend B the median B_us, its quartiles, B_first_us, B_kernels by class and in all, memory."""
    row: Result = {"case": str(case), **asdict(case), "backends": list(backends),
                   "machine": describe_cpu() | describe_gpu(), "failures": {}}  # fmt: skip
    workers: dict[str, Worker] = {}
    losses: dict[str, list[float]] = {}
    try:
        for backend in backends:  # one after another: starting is work, too
            workers[backend] = Worker(str(case), BACKENDS[backend], clusters=case.style == "tf1")
            answer = _ask(row, workers, backend, "run", plan.warm_up)
            if answer is not None:
                losses[backend] = answer["losses"][:COMPARED_STEPS]
                row[f"{backend}_first_us"] = answer["seconds"][0] * 1e6
        times: dict[str, list[float]] = {backend: [] for backend in workers}
        for turn in range(plan.rounds):
            order = list(workers)
            shift = turn % max(len(order), 1)
            for backend in order[shift:] + order[:shift]:
                answer = _ask(row, workers, backend, "run", plan.steps)
                times[backend] += [] if answer is None else answer["seconds"]
        counts = {backend: _ask(row, workers, backend, "profile", plan.profiled) for backend in list(workers)}
    finally:
        said = {backend: worker.close() for backend, worker in workers.items()}
    if counts.get("stitch") is not None and row["machine"].get("gpu"):
        counts["stitch"] |= _kernels_outside_graphs(case, plan)
    for backend, worker in workers.items():
        first, median, third = (value * 1e6 for value in statistics.quantiles(times[backend], n=4))
        row |= {f"{backend}_us": median, f"{backend}_quartiles_us": [first, third]}
        count = counts[backend]
        if count is not None:
            classes = with_regions(count, worker.report())
            row |= {f"{backend}_kernels": sum(classes.values()), f"{backend}_kernels_by_class": classes,
                    f"{backend}_memory": {k: v for k, v in count.items() if k.endswith("_mb")}}  # fmt: skip
    if "tf" in losses:
        row["loss_difference"] = {b: _difference(losses["tf"], values) for b, values in losses.items() if b != "tf"}
    row["said"] = [line for line in said.get("stitch", "").splitlines() if line.startswith("[tf_stitch]")][-1:]
    return row


def _kernels_outside_graphs(case: ModelCase, plan: Plan) -> Result:
    """The kernel counts of a process of its own: the profiler sees no kernels inside CUDA graphs."""
    worker = Worker(str(case), "tf_stitch", variables={"TF_STITCH_CUDA_GRAPHS": "0"})
    try:
        worker.run(plan.warm_up)
        return {name: count for name, count in worker.profile(plan.profiled).items() if name in ("classes", "regions")}
    finally:
        worker.close()


def _ask(row: Result, workers: dict[str, Worker], backend: str, what: str, steps: int) -> Result | None:
    """The worker's answer. One that died leaves the row with its reason, and gets no more turns."""
    try:
        worker = workers[backend]
        return worker.run(steps) if what == "run" else worker.profile(steps)
    except RuntimeError as error:
        row["failures"][backend] = str(error)
        del workers[backend]
        return None


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
    heads += [f"{b} kernels" for b in backends]
    lines = ["| case | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for row in rows:
        times = [f"{row[f'{b}_us'] / 1e3:.2f}" if f"{b}_us" in row else "failed" for b in backends]
        ratios = [f"{row[f'{b}_us'] / row['stitch_us']:.2f}" if {f"{b}_us", "stitch_us"} <= row.keys() else "-"
                  for b in backends if b != "stitch"]  # fmt: skip
        kernels = ["+".join(f"{n:.0f}" for n in row[f"{b}_kernels_by_class"].values())
                   if f"{b}_kernels_by_class" in row else "-" for b in backends]  # fmt: skip
        lines.append(f"| {row['case']} | " + " | ".join([*times, *ratios, *kernels]) + " |")
    lines += ["", "Kernels a step: memory-intensive + library calls + copies."]
    for row in rows:
        lines += [f"\n{row['case']} failed with {b}: {reason.splitlines()[-1]}" for b, reason in row["failures"].items()
                  if reason]  # fmt: skip
    return "\n".join(lines) + "\n"
