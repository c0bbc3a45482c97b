"""What a program that imports TensorFlow costs with TF_STITCH=1, and without: seconds from its start to the end of the
import, on the wall and of processor time, medians of processes that take turns; and what of it tf_stitch itself takes
once TensorFlow is there, in the fastest process.

    python -m tools.import_cost --import_turns=9

On a busy machine the difference of two imports is lost in their spread: there the last line is the one to believe.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from absl import app, flags

_TURNS = flags.DEFINE_integer("import_turns", 9, "processes of each kind", lower_bound=1)
_PROGRAM = """
import os, sys, time
import tensorflow
print(time.monotonic() - float(sys.argv[1]), time.process_time())
"""
_OWN = """
import os, time
import tensorflow
os.environ["TF_STITCH"] = "1"
start = time.process_time()
import tf_stitch.plugin.autoload
seconds = time.process_time() - start
assert tf_stitch.is_enabled()
print(seconds)
"""

Seconds = tuple[float, float]
"""On the wall, and of processor time."""


def import_seconds(stitched: bool) -> Seconds:
    """Of a process of its own.

    Raises:
        subprocess.CalledProcessError: TensorFlow cannot be imported.
    """
    wall, processor = map(float, _printed(_PROGRAM, stitched).split())
    return wall, processor


def own_seconds() -> float:
    """Processor time in which tf_stitch gets ready in a process of its own, which has imported TensorFlow.

    Raises:
        subprocess.CalledProcessError: TensorFlow cannot be imported, or tf_stitch was not ready.
    """
    return float(_printed(_OWN, stitched=False))


def _printed(program: str, stitched: bool) -> str:
    environment = {**os.environ, "TF_STITCH": str(int(stitched)), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what users import was compiled before
    return subprocess.run([sys.executable, "-c", program, str(time.monotonic())], capture_output=True, text=True,
                          check=True, env=environment).stdout


def table(plain: Sequence[Seconds], stitched: Sequence[Seconds]) -> str:
    """A line for each kind of seconds."""
    lines = []
    for place, kind in enumerate(("wall", "processor")):
        one, other = (statistics.median(seconds[place] for seconds in many) for many in (plain, stitched))
        lines.append(f"{kind:9} {one:.2f} s without, {other:.2f} s with: {other - one:+.2f} s, {other / one:.2f}x")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Raises SystemExit for arguments that are no flags."""
    if len(argv) > 1:
        raise app.UsageError(f"{argv[1]} is no flag")
    found: dict[bool, list[Seconds]] = {False: [], True: []}
    for turn in range(_TURNS.value):
        for stitched in (False, True) if turn % 2 else (True, False):
            found[stitched].append(import_seconds(stitched))
    print(table(found[False], found[True]))
    print(f"of tf_stitch itself {min(own_seconds() for _ in range(_TURNS.value)):.3f} s of processor time")


if __name__ == "__main__":
    app.run(main)
