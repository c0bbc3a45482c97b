"""Memory that whole runs of train steps take at most, beside what their settled steps take: TensorFlow, XLA, tf_stitch.

    python -m tools.memory_peaks                                           # GPT-2 24 x 1024 and a ConvNeXt: 5 minutes
    python -m tools.memory_peaks --cases=gpt2:4x256x4x128x8192x8 --calls=20 --backends=tf,stitch
    python -m tools.memory_peaks --backends=stitch,stitch:0.5,stitch:12GiB # with TF_STITCH_MEMORY

Each backend runs in a process of its own, all at once (times are rough), with its default settings; a tiny case comes
before, for tf_stitch's native libraries. First steps are a new user's where no kernels are in the cache. Prints a row
for each, in MiB by TensorFlow's allocator: what is in use before the first call, the most in the first call, in any,
and in the last calls (median); whole run by settled step; seconds of the first call and milliseconds of the last ones;
the last loss, all its digits; of tf_stitch the arena, what is alive in it and the least that any order of its kernels
would need, runs of TensorFlow's ops in place of kernels and beside them. A case is NAME of
tools/benchmark/network_cases.py, or gpt2:LAYERSxWIDTHxHEADSxLENGTHxVOCABULARYxBATCH in mixed bfloat16.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from absl import app, flags

from tools.benchmark.machine import module_path
from tools.benchmark.network_cases import CASES

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
TINY = "gpt2:1x64x2x16x64x2"
SETTLED = 5
"""Calls at the end."""

_CASES = flags.DEFINE_list("cases", ["gpt2:24x1024x16x512x50257x8", "convnext_tiny_train_32"], "what trains")
_BACKENDS = flags.DEFINE_list("backends", ["tf", "xla", "stitch"], "tf, xla, stitch, stitch:BUDGET")
_CALLS = flags.DEFINE_integer("calls", 60, "of each: the profitability check is over before the last")
_LIMIT = flags.DEFINE_float("limit", 140, "seconds of a case")
_CHILD = flags.DEFINE_string("child", None, "a backend: runs one case in this process")


def trained(case: str, backend: str, calls: int) -> dict[str, Any]:
    """Trains in this process."""
    import keras
    import numpy as np
    import tensorflow as tf

    from models import kinds, language, vision

    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    device = "GPU:0" if gpus else "CPU:0"
    keras.utils.set_random_seed(0)
    if case.startswith("gpt2:"):
        *sizes, batch = map(int, case.partition(":")[2].split("x"))
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        network: Any = language.build("GPT2", language.Config(*sizes))
    else:
        name, _, batch, policy, size = CASES[case]
        keras.mixed_precision.set_global_policy(policy)
        others: Any = next(module for module in (language, kinds) if size or name in module.NAMES)
        network = vision.build(name, size) if size else others.build(name)
    arguments = tuple(map(tf.constant, network.batch(batch)))
    step = tf.function(network.train, autograph=False, jit_compile=True if backend == "xla" else None)
    before = tf.config.experimental.get_memory_info(device)["current"]
    peaks, seconds = [], []
    for _ in range(calls):
        tf.config.experimental.reset_memory_stats(device)
        start = time.perf_counter()
        loss = float(np.asarray(step(*arguments)))
        seconds.append(time.perf_counter() - start)
        peaks.append(tf.config.experimental.get_memory_info(device)["peak"])
    return {"before": before, "peaks": peaks, "seconds": seconds, "loss": loss}


def begun(case: str, backend: str, folder: Path, calls: int) -> subprocess.Popen[str]:
    """A process that trains; `folder` is for its report."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TF_STITCH", "TF_STITCH_REPORT")}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": module_path(ROOT)}
    stitched, _, budget = backend.partition(":")
    if stitched == "stitch":
        environment |= {"TF_STITCH": "1", "TF_STITCH_REPORT": str(folder), "TF_STITCH_MEMORY": budget}
    command = [sys.executable, *(["-m", "tf_stitch"] if stitched == "stitch" else []), "-m", "tools.memory_peaks",
               f"--child={backend}", f"--cases={case}", f"--calls={calls}"]
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)


def row(case: str, backend: str, said: dict[str, Any], folder: Path) -> str:
    """A line of the table."""
    peaks, settled = said["peaks"], median(said["peaks"][-SETTLED:])
    mib = [said["before"], peaks[0], max(peaks), settled]
    line = (f"{case:28} {backend:12} " + " ".join(f"{n / MIB:9,.0f}" for n in mib) + f" {max(peaks) / settled:6.2f} "
            f"{said['seconds'][0]:7.1f} s {1e3 * median(said['seconds'][-SETTLED:]):8.1f} ms  loss {said['loss']:.9g}")
    report = folder / "report.json"
    if not backend.startswith("stitch") or not report.exists():
        return line
    document = json.loads(report.read_text())
    builds = [build for build in document["builds"] if build["memory"]]
    arena, alive, least = (sum(values) / MIB for values in (
        [b["arena_bytes"] for b in builds], [b["live_bytes"] for b in builds],
        [b["memory"]["least_bytes"] for b in builds]))
    fallbacks, shadows = (sum(region[key] for region in document["regions"]) for key in ("fallbacks", "shadow_runs"))
    remarks = {remark["reason"] for remark in document["remarks"] if remark["stage"] in ("memory", "profitability")}
    runs = f"{fallbacks} runs by TensorFlow, {shadows} beside"
    return "\n".join([f"{line}  arena {arena:,.0f}, alive {alive:,.0f}, least {least:,.0f}; {runs}",
                      *(f"    {remark}" for remark in sorted(remarks))])


def main(_: Sequence[str]) -> None:
    if _CHILD.value:
        print(json.dumps(trained(_CASES.value[0], _CHILD.value, _CALLS.value)))
        return
    if any(backend.startswith("stitch") for backend in _BACKENDS.value):
        with tempfile.TemporaryDirectory() as folder:
            begun(TINY, "stitch", Path(folder), calls=2).communicate()
    print(f"{'case':28} {'by':12} {'before':>9} {'first':>9} {'whole run':>9} {'settled':>9}  ratio   first      call")
    for case in _CASES.value:
        with tempfile.TemporaryDirectory() as folder:
            places = {backend: Path(folder) / backend.replace(":", "_") for backend in _BACKENDS.value}
            children = {backend: begun(case, backend, place, _CALLS.value) for backend, place in places.items()}
            end = time.monotonic() + _LIMIT.value
            for backend, child in children.items():
                try:
                    said, _errors = child.communicate(timeout=max(1.0, end - time.monotonic()))
                    print(row(case, backend, json.loads(said.splitlines()[-1]), places[backend]), flush=True)
                except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
                    child.kill()
                    print(f"{case:28} {backend:12} not over after {_LIMIT.value:.0f} s, or failed: {error!r}")


if __name__ == "__main__":
    app.run(main)
