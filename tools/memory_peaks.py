"""Memory that whole runs of train steps take at most, beside what their settled steps take: TensorFlow, XLA, tf_stitch,
Keras on JAX.

    python -m tools.memory_peaks                                           # GPT-2 24 x 1024 and a ConvNeXt: 5 minutes
    python -m tools.memory_peaks --cases=gpt2:4x256x4x128x8192x8 --calls=20 --backends=tf,stitch
    python -m tools.memory_peaks --cases=resnet50_train --backends=jax,stitch,stitch:0.5,stitch:12GiB
                                 --out=benchmarks/raw/memory_peaks.json.gz
    python -m tools.memory_peaks --backends=stitch,tf@8000,stitch@8000      # on a device of 8,000 MiB

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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from absl import app, flags

from tools.benchmark.machine import describe_cpu, describe_gpu, module_path
from tools.benchmark.memory_child import trained
from tools.benchmark.memory_rows import HEADER, Row, cells, page, row
from tools.benchmark.raw_rows import command_line, page_of, write_rows

ROOT = Path(__file__).resolve().parents[1]
TINY = "gpt2:1x64x2x16x64x2"
_CASES = flags.DEFINE_list("cases", ["gpt2:24x1024x16x512x50257x8", "convnext_tiny_train_32"], "what trains")
_BACKENDS = flags.DEFINE_list("backends", ["tf", "xla", "stitch"], "tf, xla, stitch, stitch:TF_STITCH_MEMORY, jax: "
                              "Keras on JAX; but for the last with @MIB behind it on a device that has no more")
_CALLS = flags.DEFINE_integer("calls", 60, "of each: the profitability check is over before the last")
_LIMIT = flags.DEFINE_float("limit", 140, "seconds of a case")
_TOGETHER = flags.DEFINE_integer("together", 1, "cases at a time", lower_bound=1)
_OUT = flags.DEFINE_string("out", None, "file for the rows, .json.gz; the page is beside it")
_COMMIT = flags.DEFINE_string("commit", "-", "what is measured")
_DEVICE_MIB = flags.DEFINE_integer("device_mib", 0, "of a child: MiB of its device; 0: all that there are")
_CHILD = flags.DEFINE_string("child", None, "a backend: runs one case in this process")


def begun(case: str, backend: str, folder: Path, calls: int) -> subprocess.Popen[str]:
    """A process that trains; `folder` is for its report."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TF_STITCH", "TF_STITCH_REPORT")}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": module_path(ROOT)}
    if backend == "jax":
        environment |= {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    framework, _, limit = backend.partition("@")
    framework, _, budget = framework.partition(":")
    if framework == "stitch":
        environment |= {"TF_STITCH": "1", "TF_STITCH_REPORT": str(folder), "TF_STITCH_MEMORY": budget or "auto",
                        "TF_STITCH_ASYNC": "0"}  # else the most may be TensorFlow's, in first calls
    command = [sys.executable, *(["-m", "tf_stitch"] if framework == "stitch" else []), "-m", "tools.memory_peaks",
               f"--child={framework}", f"--cases={case}", f"--calls={calls}", f"--device_mib={limit or 0}"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)


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
            print("\n    ".join([" ".join(cells(found)), f"loss {found['loss']:.9g}", *found["remarks"],
                                 *([f"{found['regions']} regions"] if "regions" in found else [])]), flush=True)
    return rows


def main(_: Sequence[str]) -> None:
    if _CHILD.value:
        print(json.dumps(trained(_CASES.value[0], _CHILD.value, _CALLS.value, _DEVICE_MIB.value)))
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
