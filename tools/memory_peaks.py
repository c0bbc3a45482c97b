"""Memory that whole runs of train steps take at most, beside what their settled steps take: TensorFlow, XLA, tf_stitch,
Keras on JAX.

    python -m tools.memory_peaks                                           # GPT-2 24 x 1024 and a ConvNeXt: 5 minutes
    python -m tools.memory_peaks --cases=gpt2:4x256x4x128x8192x8 --calls=20 --backends=tf,stitch
    python -m tools.memory_peaks --cases=resnet50_train --backends=jax,stitch,stitch:0.5,stitch:12GiB
                                 --out=benchmarks/raw/memory_peaks.json.gz

Each backend runs in a process of its own, all at once (times are rough), with its default settings; a tiny case comes
before, for tf_stitch's native libraries. First steps are a new user's where no kernels are in the cache. Counted is
what the framework's allocator hands out. A case is NAME of tools/benchmark/network_cases.py, or
gpt2:LAYERSxWIDTHxHEADSxLENGTHxVOCABULARYxBATCH in mixed bfloat16. Under JAX only networks of one Keras model run.
Prints rows as the page has them (benchmarks/memory_peaks.md), the last loss with all its digits, and why
kernels waited or were not timed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from absl import app, flags

from tools.benchmark.machine import describe_cpu, describe_gpu, module_path
from tools.benchmark.markdown import table
from tools.benchmark.memory_child import trained
from tools.benchmark.raw_rows import command_line, page_of, write_rows

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
TINY = "gpt2:1x64x2x16x64x2"
SETTLED = 5
"""Calls at the end."""
HEADER = ("case", "by", "before", "first call", "whole run", "settled", "whole run / settled", "arena", "least",
          "first call, s", "call, ms", "commit")
ABOUT = """Of a process that trains, MiB that the framework's allocator has handed out: before the first call, at most
in the first call, in any, and in the last (median). Arena: what kernels hand to each other takes; least: what it
would take in the best order. JAX's allocator counts from the start on. Times are rough: processes run side by side."""

_CASES = flags.DEFINE_list("cases", ["gpt2:24x1024x16x512x50257x8", "convnext_tiny_train_32"], "what trains")
_BACKENDS = flags.DEFINE_list("backends", ["tf", "xla", "stitch"], "tf, xla, stitch, stitch:TF_STITCH_MEMORY, jax: "
                              "Keras on JAX")
_CALLS = flags.DEFINE_integer("calls", 60, "of each: the profitability check is over before the last")
_LIMIT = flags.DEFINE_float("limit", 140, "seconds of a case")
_TOGETHER = flags.DEFINE_integer("together", 1, "cases at a time", lower_bound=1)
_OUT = flags.DEFINE_string("out", None, "file for the rows, .json.gz; the page is beside it")
_COMMIT = flags.DEFINE_string("commit", "-", "what is measured")
_CHILD = flags.DEFINE_string("child", None, "a backend: runs one case in this process")

Row: TypeAlias = dict[str, Any]


def begun(case: str, backend: str, folder: Path, calls: int) -> subprocess.Popen[str]:
    """A process that trains; `folder` is for its report."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TF_STITCH", "TF_STITCH_REPORT")}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": module_path(ROOT)}
    if backend == "jax":
        environment |= {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    framework, _, budget = backend.partition(":")
    if framework == "stitch":
        environment |= {"TF_STITCH": "1", "TF_STITCH_REPORT": str(folder), "TF_STITCH_MEMORY": budget or "auto"}
    command = [sys.executable, *(["-m", "tf_stitch"] if framework == "stitch" else []), "-m", "tools.memory_peaks",
               f"--child={framework}", f"--cases={case}", f"--calls={calls}"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)


def row(case: str, backend: str, said: dict[str, Any], report: Path, commit: str) -> Row:
    """What a process found, and its report, where it has one."""
    peaks = said["peaks"]
    found = {"case": case, "by": backend, "before": said["before"] / MIB, "first call": peaks[0] / MIB,
             "whole run": max(peaks) / MIB, "settled": median(peaks[-SETTLED:]) / MIB if said["by_call"] else None,
             "first call, s": said["seconds"][0], "call, ms": 1e3 * median(said["seconds"][-SETTLED:]),
             "loss": said["loss"], "commit": commit, "remarks": []}
    if not report.exists():
        return found
    document = json.loads(report.read_text())
    builds = [build for build in document["builds"] if build["memory"]]
    remarks = {remark["reason"] for remark in document["remarks"] if remark["stage"] in ("memory", "profitability")}
    return found | {"arena": sum(build["arena_bytes"] for build in builds) / MIB,
                    "least": sum(build["memory"]["least_bytes"] for build in builds) / MIB,
                    "runs by TensorFlow": sum(region["fallbacks"] for region in document["regions"]),
                    "remarks": sorted(remarks)}


def cells(found: Row) -> list[str]:
    """A line of the table."""
    settled = found["settled"]
    ratio = None if settled is None else found["whole run"] / settled
    whole = [found[key] for key in HEADER[2:6]]
    return [found["case"], found["by"], *(_number(n, ",.0f") for n in whole), _number(ratio, ".2f"),
            *(_number(found.get(key), ",.0f") for key in ("arena", "least")), _number(found["first call, s"], ".1f"),
            _number(found["call, ms"], ".1f"), found["commit"]]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def page(document: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    yield from ("# Peak memory of training", "", ABOUT, "", f"{machine}; {document['date']}.", "",
                f"Made by `{document['command']}`.", "")
    yield from table(HEADER, [cells(found) for found in document["rows"]])


def measured(case: str) -> list[Row]:
    """A row for each backend that has trained in time."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(_BACKENDS.value)) as pool:
        places = {backend: Path(folder) / backend.replace(":", "_") for backend in _BACKENDS.value}
        children = {backend: begun(case, backend, place, _CALLS.value) for backend, place in places.items()}
        waits = {b: pool.submit(child.communicate, timeout=_LIMIT.value) for b, child in children.items()}
        for backend, wait in waits.items():
            try:
                said, _errors = wait.result()
                found = row(case, backend, json.loads(said.splitlines()[-1]), places[backend] / "report.json",
                            _COMMIT.value)
            except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
                children[backend].kill()
                print(f"{case} {backend}: not over after {_LIMIT.value:.0f} s, or failed: {error!r}", flush=True)
                continue
            rows.append(found)
            print("\n    ".join([" ".join(cells(found)), f"loss {found['loss']:.9g}", *found["remarks"]]), flush=True)
    return rows


def main(_: Sequence[str]) -> None:
    if _CHILD.value:
        print(json.dumps(trained(_CASES.value[0], _CHILD.value, _CALLS.value)))
        return
    if any(backend.startswith("stitch") for backend in _BACKENDS.value):
        with tempfile.TemporaryDirectory() as folder:
            begun(TINY, "stitch", Path(folder), calls=2).communicate()
    print(" | ".join(HEADER))
    with ThreadPoolExecutor(_TOGETHER.value) as pool:
        rows = [found for of_case in pool.map(measured, _CASES.value) for found in of_case]
    if _OUT.value:
        path = Path(_OUT.value)
        document = {"machine": describe_gpu() | describe_cpu(), "date": dt.date.today().isoformat(),
                    "command": command_line(sys.argv), "rows": rows}
        write_rows(path, document)
        page_of(path).write_text("\n".join(page(document)) + "\n")


if __name__ == "__main__":
    app.run(main)
