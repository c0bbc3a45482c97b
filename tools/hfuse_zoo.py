"""Models of the zoos with kernels in shared blocks (TF_STITCH_HFUSE=1) and without: in how many steps any are chosen,
what that was predicted and measured to gain, and the time of a step.

First each model runs in a process of its own, and compiles what measuring the first --sets sets of kernels takes that
the cost model proposes. They are measured one model at a time, for --measure seconds each. Then a process with the
records and one without run the model in turns. Models of which nothing measured faster have the same kernels in both,
and are not run again. The profitability check is off: which kernels run is to depend on nothing else. Needs a GPU.

    python -m tools.hfuse_zoo                                    # benchmarks/hfuse_zoo.md, within 200 s
    python -m tools.hfuse_zoo --cases=bert/train/medium --seconds=90 --measure=30
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from absl import app, flags

from tf_stitch.config import load_config
from tools.benchmark.hfuse_zoo_rows import Clock, Row, compared, page
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows
from tools.benchmark.workers import Worker

CASES = ("bert/train/medium", "asr/train/medium", "transformer/train/medium", "multi-interests/train/medium",
         "dien/train/medium", "dlrm/train/paper", "vision/UNet/train/16/64")  # fmt: skip
"""Of both zoos: model, mode and configuration (tools/benchmark/model_cases.py), or a network of models/vision.py."""
REST = 80
"""Seconds that are kept for what follows the first steps."""

_CASES = flags.DEFINE_list("cases", list(CASES), "what to run")
_SECONDS = flags.DEFINE_float("seconds", 200, "for everything")
_MEASURE = flags.DEFINE_float("measure", 8, "for the measurements of a model")
_SETS = flags.DEFINE_integer("sets", 3, "of kernels of a model, that are compiled before")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "turns of each process")
_OUT = flags.DEFINE_string("out", str(raw_rows("hfuse_zoo")), "raw rows; the page goes to benchmarks/")


def new_records(folder: Path) -> Path:
    """A cache without records of measurements, and with all that was built."""
    for kept in ("native", "kernels"):
        built = load_config().cache_dir.expanduser() / kept
        built.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / kept).symlink_to(built, target_is_directory=True)
    return folder


def worker(case: str, cache: Path, shared: bool) -> Worker:
    return Worker("hfuse_zoo_worker", case, backend="tf_stitch", variables={
        "TF_STITCH_CACHE": str(cache), "TF_STITCH_HFUSE": "1" if shared else "0", "TF_STITCH_GUARD": "0",
        "TF_STITCH_FIRST_STEP_SECONDS": "600", "TF_STITCH_TUNE_SECONDS": "0"})


def measured(cases: Sequence[str], cache: Path, clock: Clock, seconds: float) -> list[Row]:
    """A row for each case: launches, and what was measured of kernels in shared blocks."""
    workers = [worker(case, cache, True) for case in cases]

    def ready(one: Worker) -> Row:
        try:
            answer = one.ask("ready", 2, limit=clock.left(less=REST))
            return answer | one.ask("build", _SETS.value, limit=clock.left(less=REST))
        except (RuntimeError, TimeoutError) as error:
            return {"failed": str(error)}

    with ThreadPoolExecutor(len(workers)) as pool:
        answers = list(pool.map(ready, workers))
    rows = []
    for case, one, answer in zip(cases, workers, answers, strict=True):
        row: Row = {"case": case, **answer}
        if "failed" not in row:
            try:
                row |= {"counts": one.ask("launches", limit=30)}
                row |= one.ask("measure", seconds, limit=seconds + 60)
            except (RuntimeError, TimeoutError) as error:
                row["failed"] = str(error)
            one.close()
        print(case, {k: v for k, v in row.items() if k != "rows"}, flush=True)
        for found in row.get("rows", ()):
            print("   ", found, flush=True)
        rows.append(row)
    return rows


def main(_: Sequence[str]) -> None:
    clock, out = Clock(_SECONDS.value), Path(_OUT.value)
    document: dict[str, Any] = {"command": command_line(sys.argv), "machine": describe_gpu() | describe_cpu()}
    with tempfile.TemporaryDirectory(prefix="tf_stitch_hfuse_zoo") as folder:
        cache = new_records(Path(folder))
        rows = document["rows"] = measured(_CASES.value, cache, clock, _MEASURE.value)
        written(out, document)
        chosen = [i for i, row in enumerate(rows) if any(found["faster"] for found in row.get("rows", ()))]
        pairs = {i: (worker(rows[i]["case"], cache, False), worker(rows[i]["case"], cache, True)) for i in chosen}
        with ThreadPoolExecutor(2 * len(chosen) or 1) as pool:
            waits = {i: [pool.submit(one.ask, "ready", 2, limit=clock.left()) for one in pairs[i]] for i in chosen}
        for i in chosen:
            try:
                for wait in waits[i]:
                    wait.result()
                rows[i] = compared(rows[i], pairs[i], _ROUNDS.value, clock)
            except (RuntimeError, TimeoutError) as error:
                rows[i]["not_compared"] = str(error)
            for one in pairs[i]:
                one.close()
            written(out, document)
    print(page(document))


def written(out: Path, document: dict[str, Any]) -> None:
    """Rows and page so far."""
    write_rows(out, document)
    page_of(out).write_text(page(document))


if __name__ == "__main__":
    app.run(main)
