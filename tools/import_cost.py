"""What `import tensorflow` costs with TF_STITCH=1, and without: seconds on the wall and of processor time, medians of
processes that take turns.

    python -m tools.import_cost --import_turns=9

On a machine that is busy the seconds of processor time are the ones to believe.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from absl import app, flags

_TURNS = flags.DEFINE_integer("import_turns", 9, "processes of each kind", lower_bound=1)
_PROGRAM = """
import os, time
before, start = sum(os.times()[:2]), time.perf_counter()
import tensorflow
print(time.perf_counter() - start, sum(os.times()[:2]) - before)
"""

Seconds = tuple[float, float]
"""On the wall, and of processor time."""


def import_seconds(stitched: bool) -> Seconds:
    """Of a process of its own.

    Raises:
        subprocess.CalledProcessError: TensorFlow cannot be imported.
    """
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True,
                          env={**os.environ, "TF_STITCH": str(int(stitched)), "TF_CPP_MIN_LOG_LEVEL": "3"})
    wall, processor = map(float, done.stdout.split())
    return wall, processor


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


if __name__ == "__main__":
    app.run(main)
