"""What a first call costs: TensorFlow's, and tf_stitch's with nothing on disk and with what that left.

Each is a process of its own. Those of a turn start together, and then make their calls one after the other. Rows go to
--out as they come, with a page beside it, and what it has is not measured again. Times of first calls are processor
seconds, compilers included, and seconds on the wall; beside them stand what the first call and the next --calls take on
the wall together, while tf_stitch works beside them, and by how much the longest of those is longer than TensorFlow's.

    python -m tools.first_calls_benchmark --case=encoder_train --case=bert/train --repeat=3
    python -m tools.first_calls_benchmark --zoo                        # all models, trained and run
    python -m tools.first_calls_benchmark --out=benchmarks/raw/first_calls_gpu.json.gz --calls=10 --case=encoder_train
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from absl import app, flags

from models.zoo import DECODERS, NAMES, RECOMMENDERS
from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.machine import commit, describe_cpu, describe_gpu
from tools.benchmark.markdown import table
from tools.benchmark.model_cases import ModelCase
from tools.benchmark.raw_rows import page_of, read_rows, write_rows
from tools.benchmark.workers import Worker

BACKENDS = ("tensorflow", "cold", "warm")
_PATIENCE = 300.0

_CASES = flags.DEFINE_multi_string("case", [], "of tools/benchmark/cases.py, or model/mode of the zoo")
_ZOO = flags.DEFINE_bool("zoo", False, "all models of the zoo, trained and run")
_REPEAT = flags.DEFINE_integer("repeat", 1, "turns of each", lower_bound=1)
_CALLS = flags.DEFINE_integer("calls", 30, "after the first", lower_bound=1)
_ASYNC = flags.DEFINE_string("async", "auto", "TF_STITCH_ASYNC of the processes")
_OUT = flags.DEFINE_string("out", None, "file for the rows, as JSON")


@dataclass(frozen=True)
class Row:
    """Of one process: its first call on processors and on the wall, all calls on the wall, the longest other one."""

    case: str
    backend: str
    processor_s: float
    wall_s: float
    all_s: float
    worst_s: float = math.nan


def started(case: str, backend: str, cache: Path) -> Worker:
    """A process that has the case, or will soon."""
    name = str(ModelCase(*case.split("/"))) if "/" in case else case
    ours = {"TF_STITCH_CACHE": str(cache), "TF_STITCH_ASYNC": _ASYNC.value}
    plain = backend == "tensorflow"
    return Worker("worker", name, "tensorflow" if plain else "tf_stitch",
                  backend="tensorflow" if plain else "tf_stitch", variables={} if plain else ours)


def measure(case: str, backend: str, worker: Worker) -> Row:
    """
    Raises:
        RuntimeError, TimeoutError: the program failed.
    """
    first = worker.ask("run", 1, limit=_PATIENCE)
    others = worker.ask("run", _CALLS.value, limit=_PATIENCE)
    if backend == "cold":  # the next process finds all
        worker.ask("settle", _PATIENCE, limit=2 * _PATIENCE)
    worker.close()
    return Row(case, backend, first["processor"][0], first["seconds"][0], sum(first["seconds"] + others["seconds"]),
               max(others["seconds"]))


def turn(case: str, cache: Path) -> list[Row]:
    """A row of each backend.

    Raises:
        RuntimeError, TimeoutError: a program failed.
    """
    workers = {backend: started(case, backend, cache) for backend in BACKENDS}
    try:
        for worker in workers.values():
            worker.wait(_PATIENCE)
        return [measure(case, backend, worker) for backend, worker in workers.items()]
    finally:
        for worker in workers.values():
            worker.close()


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


def main(_: Sequence[str]) -> None:
    zoo = NAMES + RECOMMENDERS + DECODERS if _ZOO.value else ()
    cases = [*_CASES.value, *(f"{model}/{mode}" for model in zoo for mode in ("train", "infer"))]
    for library in (STITCH_OP, GRAPH_HOOK):
        native = build_library(library, load_config().cache_dir).parent
    out = Path(_OUT.value) if _OUT.value else None
    rows = [Row(**row) for row in read_rows(out)["rows"]] if out is not None and out.exists() else []
    machine = {"commit": commit(), **describe_gpu(), **describe_cpu(), "async": _ASYNC.value,
               "calls": 1 + _CALLS.value, "date": time.strftime("%Y-%m-%d")}  # fmt: skip
    for case in cases:
        if any(row.case == case for row in rows):
            continue
        for _ in range(_REPEAT.value):
            with tempfile.TemporaryDirectory() as folder:
                cache = Path(folder, "cache")
                shutil.copytree(native, cache / "native")
                try:
                    rows += turn(case, cache)
                except (RuntimeError, TimeoutError) as error:
                    print(f"{case}: {error}", flush=True)
                    break
        if not any(row.case == case for row in rows):
            continue
        print(lines([row for row in rows if row.case == case])[-2], flush=True)
        if out is not None:
            write_rows(out, {"machine": machine, "rows": [asdict(row) for row in rows]})
            page_of(out).write_text(page(rows, machine))
    print("\n".join(lines(rows)))


if __name__ == "__main__":
    app.run(main)
