"""Compares TensorFlow, XLA (jit_compile=True) and tf_stitch on this machine, interleaved in one run.

Each backend runs a case in a process of its own, in turns of a few steps; the others wait. Leave the machine alone
meanwhile. Without --models: the main job's cases, into benchmarks/cpu_main_job.md and its rows.
With --models: models of the zoo, into --json. Run it again to go on where it was stopped, or to repeat failed rows.

    python -m tools.benchmark
    python -m tools.benchmark --cases=encoder_train --rounds=3 --out=/tmp/try.json
    python -m tools.benchmark --models=all --config=medium --json=benchmarks/raw/cpu_models.json.gz
    python -m tools.benchmark --models=all --config=paper --seconds=20 --json=benchmarks/raw/h200_models.json.gz
    python -m tools.benchmark --models=crnn --config=paper --backends=tf,xla,stitch,mapping,hierarchy --json=/tmp/m.json
    python -m tools.benchmark --models=bert,dien --modes=infer --dtypes=mixed_float16 --json=/tmp/m.json
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark import model_rows, workers
from tools.benchmark.machine import describe_cpu
from tools.benchmark.model_cases import ModelCase
from tools.benchmark.profitability_facts import DECIDED_SECONDS, profitability_cell, profitability_facts
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows

ROOT = Path(__file__).resolve().parents[2]


BACKENDS = tuple(workers.BACKENDS.values())
CASES = ("encoder_inference", "encoder_train", "word2vec_train", "char_train")
COMPARED_STEPS = 10

_CASES = flags.DEFINE_list("cases", [*CASES, "op_overhead"], "what to measure")
_BACKENDS = flags.DEFINE_list("backends", list(workers.BACKENDS), "with what; of models also mapping, hierarchy")
_ROUNDS = flags.DEFINE_integer("rounds", 8, "turns of each backend")
_STEPS = flags.DEFINE_integer("steps", 8, "steps of a turn")
_WARM_UP = flags.DEFINE_integer("warm_up", 150, "steps before the first turn, by when the check has decided")
_OUT = flags.DEFINE_string("out", str(raw_rows("cpu_main_job")), "raw rows; the page goes to benchmarks/")

_MODELS = flags.DEFINE_list("models", [], "models of the zoo, or all; one mode of a model: dien/train")
_MODES = flags.DEFINE_list("modes", [], "train, infer; without it, those of the papers")
_DTYPES = flags.DEFINE_list("dtypes", ["float32"], "policies, for the models that have them")
_STYLES = flags.DEFINE_list("styles", ["tf2"], "tf2, tf1, for the models that have them")
_CONFIG = flags.DEFINE_string("config", "small", "sizes of the models")
_PROFILED = flags.DEFINE_integer("profiled", 2, "steps of a model under the profiler", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 60, "of a model's turns, all backends together, and of a backend's warm-up")
_LIMIT = flags.DEFINE_float("compile_limit", 300, "seconds of a call before the turns, or the backend is left out")
_STITCHED = flags.DEFINE_integer("stitched_warm_up", 150, "steps of each shape, stitched, before the first turn")
_TOGETHER = flags.DEFINE_integer("together", 1, "models that compile at the same time, before their turns")
_JSON = flags.DEFINE_string("json", None, "where rows of models go")


def measure(case: str) -> workers.Result:
    """Quartiles of each backend's step, in milliseconds, and how losses differ from TensorFlow's."""
    started: dict[str, workers.Worker] = {}
    losses: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    failures: dict[str, str] = {}
    first: dict[str, float] = {}
    for backend in [workers.BACKENDS.get(b, b) for b in _BACKENDS.value]:  # one after another: starting is work, too
        worker = workers.Worker("worker", case, backend, backend=backend,
                                variables=workers.CLUSTERS if (case, backend) == ("word2vec_train", "xla") else None)
        try:
            answer, start = worker.ask("run", _WARM_UP.value), time.monotonic()
            while backend == "tf_stitch" and time.monotonic() < start + DECIDED_SECONDS:
                worker.ask("run", _STEPS.value)
        except RuntimeError as error:
            failures[backend] = str(error)
            continue
        started[backend], losses[backend], times[backend] = worker, answer["losses"][:COMPARED_STEPS], []
        first[backend] = answer["seconds"][0]
    for turn in range(_ROUNDS.value):
        order = list(started)
        for backend in order[turn % len(order) :] + order[: turn % len(order)]:
            times[backend] += started[backend].ask("run", _STEPS.value)["seconds"]
    said = {backend: worker.said() for backend, worker in started.items()}
    report = started["tf_stitch"].report() if "tf_stitch" in started else None
    return {
        "case": case,
        "ms": {backend: quartiles(seconds) for backend, seconds in times.items()},
        "first_step_ms": {backend: seconds * 1e3 for backend, seconds in first.items()},
        "loss_difference": {backend: difference(losses["tensorflow"], values) for backend, values in losses.items()}
        if "tensorflow" in losses else {},
        "tf_stitch": said.get("tf_stitch", []),
        "guard": None if report is None else profitability_facts(report),
        "failures": failures,
    }  # fmt: skip


def quartiles(seconds: Sequence[float]) -> list[float]:
    """First quartile, median, third quartile in milliseconds."""
    return [value * 1e3 for value in statistics.quantiles(seconds, n=4)]


def difference(wanted: Sequence[float], actual: Sequence[float]) -> float:
    """Largest relative difference of the first losses."""
    return max(abs(a - b) / max(abs(a), 1e-30) for a, b in zip(wanted, actual, strict=True))


def measure_op_overhead() -> workers.Result:
    """Medians, over rounds, of the microseconds an op of each kind takes in a chain."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_STITCH")}
    command = [sys.executable, "-m", "tools.benchmark.op_overhead", str(_ROUNDS.value)]
    run = subprocess.run(command, text=True, capture_output=True, cwd=ROOT, check=False,
                         env=environment | {"TF_CPP_MIN_LOG_LEVEL": "3"})
    if run.returncode:
        return {"case": "op_overhead", "failures": {"tf_stitch": "\n".join(run.stderr.splitlines()[-8:])}}
    times = json.loads(run.stdout.splitlines()[-1])
    return {"case": "op_overhead", "us": {name: statistics.median(values) for name, values in times.items()},
            "extra_us": statistics.median(s - a for s, a in zip(times["StitchOp"], times["AddV2"], strict=True)),
            "failures": {}}  # fmt: skip


def table(document: workers.Result) -> str:
    """The result as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    lines = ["# Main job on a CPU", "", f"{machine}.", "",
             "Milliseconds per step: median (quartiles), backends interleaved. "
             "Made by `python -m tools.benchmark`. Regions "
             "timed against the ops they replaced: how many run those ops since, and the largest ratio of the others.",
             "", "| case | TensorFlow | XLA | tf_stitch | TensorFlow / tf_stitch | XLA / tf_stitch | losses differ by "
             "| regions timed |", "| --- " * 8 + "|"]  # fmt: skip
    for result in document["results"]:
        if "ms" in result:
            lines.append(_row(result))
    for result in document["results"]:
        if "us" in result:
            lines += ["", f"A StitchOp costs {result['us']['StitchOp']:.2f} us in a chain of small ops, an AddV2 "
                          f"{result['us']['AddV2']:.2f} us: {result['extra_us']:+.2f} us."]  # fmt: skip
        for backend, failure in result["failures"].items():
            lines += ["", f"{result['case']} failed with {backend}:", "", "```", failure, "```"]
    return "\n".join(lines) + "\n"


def _row(result: workers.Result) -> str:
    ms = result["ms"]
    cells = [f"{ms[b][1]:.2f} ({ms[b][0]:.2f}-{ms[b][2]:.2f})" if b in ms else "-" for b in BACKENDS]
    ratios = [f"{ms[b][1] / ms['tf_stitch'][1]:.2f}" if b in ms and "tf_stitch" in ms else "-" for b in BACKENDS[:2]]
    difference = result["loss_difference"].get("tf_stitch")
    differs = "-" if difference is None else f"{difference:.0e}"
    check = "-" if result.get("guard") is None else profitability_cell(result["guard"])
    return "| " + " | ".join([result["case"], *cells, *ratios, differs, check]) + " |"


def model_cases() -> list[ModelCase]:
    """What the flags ask for, as far as the models have it."""
    from models.zoo import NAMES, load

    wanted = [name.partition("/") for name in (NAMES if _MODELS.value == ["all"] else _MODELS.value)]
    models = [(load(name), [mode] if mode else _MODES.value) for name, _, mode in wanted]
    return [ModelCase(model.name, mode, _CONFIG.value, dtype, style) for model, modes in models
            for mode in modes or model.modes for dtype in _DTYPES.value if dtype in model.dtypes
            for style in _STYLES.value if style in model.styles]  # fmt: skip


def main(_: Sequence[str]) -> None:
    if _MODELS.value:
        if _JSON.value is None:
            raise app.UsageError("--models needs --json")
        plan = model_rows.Plan(_STITCHED.value, _ROUNDS.value, _SECONDS.value, _PROFILED.value, _LIMIT.value,
                               _TOGETHER.value)
        rows = model_rows.measure_models(model_cases(), _BACKENDS.value, plan, Path(_JSON.value))
        print(model_rows.table(rows, _BACKENDS.value))
        return
    document: workers.Result = {"machine": describe_cpu(), "rounds": _ROUNDS.value, "steps": _STEPS.value}
    document["results"] = []
    out = Path(_OUT.value)
    for case in _CASES.value:
        print(case, "...", file=sys.stderr, flush=True)
        result = measure_op_overhead() if case == "op_overhead" else measure(case)
        document["results"].append(result)
        write_rows(out, document)
    page_of(out).write_text(table(document))
    print(table(document))


if __name__ == "__main__":
    app.run(main)
