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

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from absl import app, flags

from models.zoo import DECODERS, NAMES, RECOMMENDERS
from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.first_call_rows import TURN, Row, lines, page
from tools.benchmark.machine import commit, describe_cpu, describe_gpu
from tools.benchmark.model_cases import ModelCase
from tools.benchmark.raw_rows import page_of, read_rows, write_rows
from tools.benchmark.workers import Worker

_PATIENCE = 300.0

_CASES = flags.DEFINE_multi_string("case", [], "of tools/benchmark/cases.py, or model/mode of the zoo")
_ZOO = flags.DEFINE_bool("zoo", False, "all models of the zoo, trained and run")
_REPEAT = flags.DEFINE_integer("repeat", 1, "turns of each", lower_bound=1)
_CALLS = flags.DEFINE_integer("calls", 30, "after the first", lower_bound=1)
_ASYNC = flags.DEFINE_string("async", "auto", "TF_STITCH_ASYNC of the processes")
_OUT = flags.DEFINE_string("out", None, "file for the rows, as JSON")


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
    """A row of each backend, and a second one of TensorFlow.

    Raises:
        RuntimeError, TimeoutError: a program failed.
    """
    workers = [started(case, backend, cache) for backend in TURN]
    try:
        for worker in workers:
            worker.wait(_PATIENCE)
        return [measure(case, backend, worker) for backend, worker in zip(TURN, workers, strict=True)]
    finally:
        for worker in workers:
            worker.close()


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
