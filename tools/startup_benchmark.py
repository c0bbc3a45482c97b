"""Seconds until a program has its first result: TensorFlow, tf_stitch with nothing on disk, and with what that left.

The processes run in turns, on the GPU if TensorFlow sees one. Only the native op is built before.

    python -m tools.startup_benchmark --workload=encoder_12x768_batch1_length128 --mode=train
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.workers import Worker

ROOT = Path(__file__).resolve().parents[1]


_WORKLOAD = flags.DEFINE_string("workload", "encoder_12x768_batch1_length128", "of benchmarking/region_cases.py")
_MODE = flags.DEFINE_enum("mode", "train", ["infer", "train"], "what is called")
_ROUNDS = flags.DEFINE_integer("repeat", 3, "turns of each")


def first_result(backend: str, cache: Path) -> tuple[float, float]:
    """Seconds from the start of a process to its first result, and those of its first call."""
    os.environ["TF_STITCH_CACHE"] = str(cache)
    start = time.perf_counter()
    worker = Worker("region_worker", _WORKLOAD.value, _MODE.value, backend, backend=backend)
    call: float = worker.ask(0, 1)["seconds"]
    seconds = time.perf_counter() - start
    print(*worker.said(), sep="\n", file=sys.stderr)
    return seconds, call


def main(_: Sequence[str]) -> None:
    for library in (STITCH_OP, GRAPH_HOOK):
        native = build_library(library, load_config().cache_dir).parent
    found: dict[str, list[tuple[float, float]]] = {"tensorflow": [], "cold": [], "warm": []}
    for _ in range(_ROUNDS.value):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder, "cache")
            shutil.copytree(native, cache / "native")
            for name, seconds in found.items():
                seconds.append(first_result("tensorflow" if name == "tensorflow" else "tf_stitch", cache))
    plain = statistics.median(total for total, _ in found["tensorflow"])
    print(f"{_WORKLOAD.value} {_MODE.value}, medians of {_ROUNDS.value}, seconds")
    for name, seconds in found.items():
        total, call = (statistics.median(values) for values in zip(*seconds, strict=True))
        print(f"{name:10}  to the first result {total:6.2f} ({total - plain:+.2f})  of it the first call {call:6.2f}")


if __name__ == "__main__":
    app.run(main)
