"""Measures this machine's CPU or GPU and writes its profile, from which tf_stitch predicts the times of kernels.

    python tools/calibrate.py                  the CPU, in about a minute; leave the machine alone meanwhile
    python tools/calibrate.py --target=cuda    the first GPU; needs CuPy, no TensorFlow
    python tools/calibrate.py --print=FILE     a profile as a table

The profile goes to the cache folder (TF_STITCH_CACHE), where tf_stitch prefers it to those that it comes with.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from calibrating import gpu, host  # noqa: E402
from calibrating.check import check_errors  # noqa: E402
from calibrating.measure import document  # noqa: E402
from calibrating.table import table  # noqa: E402
from tf_stitch.config import load_config  # noqa: E402
from tf_stitch.device.profile import parse_profile, read_profile, write_profile  # noqa: E402
from tf_stitch.errors import StitchError  # noqa: E402
from tf_stitch.runtime.device_profiles import own_profile_path  # noqa: E402
from tf_stitch.runtime.kernel_cache import KernelCache  # noqa: E402

_TARGET = flags.DEFINE_enum("target", "cpu", ["cpu", "cuda"], "what to measure")
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
    start = time.perf_counter()
    config = load_config()
    cache = KernelCache(config.cache_dir / "kernels")
    side = gpu if _TARGET.value == "cuda" else host
    device, values, made = side.calibrate(cache)
    made |= {"command": "python tools/calibrate.py " + " ".join(sys.argv[1:])}
    whole = document(device, values, made)
    if _NAME.value:
        whole["name"] = _NAME.value
    profile = parse_profile(json.loads(json.dumps(whole)))
    path = Path(_OUT.value) if _OUT.value else own_profile_path(config.cache_dir, device.target)
    write_profile(profile, path)
    print(table(profile))
    for line in check_errors(device, profile, cache):
        print(line)
    print(f"{path}, in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    app.run(main)
