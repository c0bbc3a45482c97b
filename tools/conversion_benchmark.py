"""Converted SavedModels against their originals: the same outputs, and seconds of a call, of loading, of converting.

Each model is saved with random weights. First it is converted with all of its regions, verified, and compared with its
original in a process that cannot import the package. Then, unless --notimes, it is converted twice as the command does
by itself: with nothing in the cache but the native op, and with what that left; and original and converted one run in
processes of their own, in turns. Writes benchmarks/raw/conversion.json.gz and, from it, conversion.md. Rows, and
halves of rows, that are not asked for stay as they are.

    python -m tools.conversion_benchmark
    python -m tools.conversion_benchmark --models="MobileNetV2, 1" --models=bert --out=/tmp/try.json
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from json import loads
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.convert.saved_model import Signature
from tf_stitch.native.build import STITCH_OP, build_library
from tools.benchmark.conversion_cases import CASES, SAMPLES, Case
from tools.benchmark.conversion_check import FORMS, Result, check, flags_of, save
from tools.benchmark.conversion_host import build_loader, host_times, one_region
from tools.benchmark.conversion_page import page
from tools.benchmark.machine import describe_cpu
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, read_rows, write_rows
from tools.benchmark.workers import Worker

_MODELS = flags.DEFINE_multi_string("models", list(CASES), "of tools/benchmark/conversion_cases.py")
_TURNS = flags.DEFINE_integer("turns", 7, "of each process")
_SECONDS = flags.DEFINE_float("seconds", 1.0, "of each turn, about")
_CHECK = flags.DEFINE_boolean("check", True, "compare the outputs of original and converted model")
_TIMES = flags.DEFINE_boolean("times", True, "time calls, loading and conversions")
_HOST = flags.DEFINE_boolean("host", True, "time calls from TensorFlow's C API")
_OUT = flags.DEFINE_string("out", str(raw_rows("conversion")), "raw rows; the page goes to benchmarks/")
MOST_CALLS = 300


def times(case: Case, folder: Path) -> Result:
    """Seconds of calls, loading and conversions.

    Raises:
        RuntimeError: it does not convert, or cannot run.
    """
    signature = save(case, folder)
    return {**conversions(case, signature, folder), **calls(signature, folder)}


def conversions(case: Case, signature: Signature, folder: Path) -> Result:
    """Seconds of both conversions, by the clock and of processors, and what the second says.

    Raises:
        RuntimeError: it does not convert.
    """
    library = build_library(STITCH_OP, load_config().cache_dir)
    cache = folder / "cache"
    shutil.copytree(library.parent, cache / "native")
    command = [sys.executable, "-m", "tf_stitch", "convert", *flags_of(case, signature, folder)]
    seconds, processor = {}, {}
    for which in ("cold", "warm"):
        begin, used = time.perf_counter(), _processor_seconds()
        done = subprocess.run(command, env={**os.environ, "TF_STITCH_CACHE": str(cache)}, capture_output=True,
                              text=True)
        seconds[which], processor[which] = time.perf_counter() - begin, _processor_seconds() - used
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
    report = loads((folder / "report.json").read_text())
    steps = {what.replace(f"{folder}/", ""): took for what, took in report["seconds"].items()}
    return {"conversion": seconds, "processor": processor, "steps": steps, "kept": report["counts"],
            "remarks": report["remarks"]}


def _processor_seconds() -> float:
    """Of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def calls(signature: Signature, folder: Path) -> Result:
    """Of both forms: seconds of each call and of loading by turn, and of the first call."""
    library = build_library(STITCH_OP, load_config().cache_dir)
    workers = {form: Worker("conversion_worker", library, folder / form, signature.name, folder / SAMPLES,
                            backend="tensorflow") for form in FORMS}
    found: dict[str, Result] = {form: {"turns": [], "loads": []} for form in FORMS}
    try:
        first = {form: statistics.median(worker.ask(5)["seconds"]) for form, worker in workers.items()}
        count = max(5, min(MOST_CALLS, int(_SECONDS.value / max(first.values()))))
        for turn in range(_TURNS.value):
            for form in FORMS if turn % 2 else reversed(FORMS):
                answer = workers[form].ask(count)
                found[form]["turns"].append(answer.pop("seconds"))
                found[form]["loads"].append(answer.pop("load"))
                found[form] |= answer
    finally:
        for worker in workers.values():
            worker.close()
    return found


def measure(name: str, worker: Worker) -> Result:
    """What was asked for of a row; "error" says why there is no more.

    Args:
        worker: of reload_worker.py.
    """
    case, row = CASES[name], Result(model=name, by=CASES[name].by)
    try:
        if _CHECK.value:
            with tempfile.TemporaryDirectory() as folder:
                row["check"] = check(case, Path(folder), worker)
        if _TIMES.value:
            with tempfile.TemporaryDirectory() as folder:
                row["times"] = times(case, Path(folder))
    except Exception as error:  # a model's own code may raise anything
        row["error"] = str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
    return row


def main(_: Sequence[str]) -> None:
    out = Path(_OUT.value)
    document: Result = read_rows(out) if out.exists() else {"results": []}
    rows: dict[str, Result] = {row["model"]: row for row in document["results"]}
    command = command_line([argument for argument in sys.argv if not argument.startswith("--models")])
    document |= {"machine": describe_cpu(), "command": command}
    library = build_library(STITCH_OP, load_config().cache_dir)
    worker = Worker("reload_worker", library, backend="tensorflow")
    try:
        if _HOST.value:
            with tempfile.TemporaryDirectory() as folder:
                one_region(Path(folder))
                document["host"] = host_times(build_loader(Path(folder)), library, Path(folder))
        for name in _MODELS.value:
            kept = {key: value for key, value in rows.get(name, {}).items() if key != "error"}
            rows[name] = kept | measure(name, worker)
            document["results"] = [rows[known] for known in CASES if known in rows]
            write_rows(out, document)
            page_of(out).write_text(page(document))
            print(f"{name}: {rows[name].get('error', 'done')}", file=sys.stderr, flush=True)
    finally:
        worker.close()


if __name__ == "__main__":
    app.run(main)
