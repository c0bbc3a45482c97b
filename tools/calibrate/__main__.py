"""Measures this machine's CPU or GPU and writes its profile, from which tf_stitch predicts the times of kernels.

    python -m tools.calibrate                  the CPU, in a few minutes; leave the machine alone meanwhile
    python -m tools.calibrate --target=cuda    the first GPU; needs CuPy, and a TensorFlow that sees the GPU
    python -m tools.calibrate --parts=executor ops and a CPU's matmuls alone, the rest as in the profile so far
    python -m tools.calibrate --parts=kernels  kernels alone: without TensorFlow
    python -m tools.calibrate --print=FILE     a profile as a table

The profile goes to the cache folder (TF_STITCH_CACHE), where tf_stitch prefers it to those that it comes with.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.device.profile import parse_profile, read_profile, write_profile
from tf_stitch.errors import StitchError
from tf_stitch.runtime.device_profiles import device_spec, own_profile_path
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.calibrate import gpu, host
from tools.calibrate.check import check_errors
from tools.calibrate.measure import document, kept_numbers
from tools.calibrate.table import table

ROOT = Path(__file__).resolve().parents[2]


PARTS = ("kernels", "executor")

_TARGET = flags.DEFINE_enum("target", "cpu", ["cpu", "cuda"], "what to measure")
_PARTS = flags.DEFINE_list("parts", list(PARTS), "what to measure: kernels (the device; a GPU's matmuls of few rows), "
                           "executor (ops, a CPU's matmuls)")
_OUT = flags.DEFINE_string("out", None, "the file to write, rather than the one in the cache folder")
_NAME = flags.DEFINE_string("name", None, "the device's name in the profile")
_PRINT = flags.DEFINE_string("print", None, "print this profile as a table and stop")


def main(argv: Sequence[str]) -> None:
    """Raises SystemExit where the device cannot be measured or the profile makes no sense."""
    if len(argv) > 1:
        raise app.UsageError("no arguments, please, but flags")
    try:
        if _PRINT.value:
            print(table(read_profile(Path(_PRINT.value))))
            return
        calibrate()
    except StitchError as error:
        raise SystemExit(f"calibrate: {error}") from None


def calibrate() -> None:
    """Measures, writes, and says how far the predictions made from it are from a few kernels."""
    if not _PARTS.value or not set(_PARTS.value) <= set(PARTS):
        raise app.UsageError(f"--parts: {', '.join(PARTS)}")
    start = time.perf_counter()
    config = load_config()
    cache = KernelCache(config.cache_dir / "kernels")
    everything = set(_PARTS.value) == set(PARTS)  # then the profile so far may be damaged
    device = device_spec(None if everything else config.cache_dir, 0 if _TARGET.value == "cuda" else None)
    whole = device.profile.document()
    made = {"command": " ".join(["python -m tools.calibrate", *sys.argv[1:]])}
    if "kernels" in _PARTS.value:
        side = gpu if _TARGET.value == "cuda" else host
        device, values, where = side.calibrate(cache)
        numbers = kept_numbers(whole, where)
        whole |= document(device, values, where | made)
        whole["numbers"] = numbers | whole["numbers"]
    if "executor" in _PARTS.value:
        from tools.calibrate.executor import Executor  # it imports TensorFlow

        executor = Executor(_TARGET.value)
        whole |= executor.calibrate()
        if "kernels" not in _PARTS.value:
            whole["made"]["executor"] = {**describe_cpu(), **describe_gpu(), **made}
    if _NAME.value:
        whole["name"] = _NAME.value
    profile = parse_profile(json.loads(json.dumps(whole)))
    path = Path(_OUT.value) if _OUT.value else own_profile_path(config.cache_dir, device.target)
    write_profile(profile, path, in_cache=not _OUT.value)
    print(table(profile))
    for part in _PARTS.value:
        for line in check_errors(device, profile, cache) if part == "kernels" else executor.check_errors(profile):
            print(line)
    print(f"{path}, in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    app.run(main)
