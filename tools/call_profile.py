"""Where the host's microseconds of a call go: a workload of region_benchmark.py, its calling thread and those that work
for it, by sampled stacks. Needs no profiler, only g++, so it runs on lent machines, too.

    python -m tools.call_profile --workload=encoder_12x768_batch1_length128 --backend=tf_stitch
    TF_STITCH=1 TF_STITCH_ASYNC=0 python -m tf_stitch -m tools.call_profile --backend=tf_stitch
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark.region_rows import WORKLOADS
from tools.profiling.stacks import hottest, sample, thread_seconds, tree

ROOT = Path(__file__).resolve().parents[1]


BUSY_US = 10.0
"""What a thread has to run in a call to be shown."""

_WORKLOAD = flags.DEFINE_string("workload", next(iter(WORKLOADS)), "what to call")
_MODE = flags.DEFINE_enum("mode", "infer", ["infer", "train"], "how")
_BACKEND = flags.DEFINE_enum("backend", "tf_stitch", ["tensorflow", "xla", "tf_stitch", "call"],
                             "with what; call: a function of the same arguments that does nothing")
_CALLS = flags.DEFINE_integer("calls", 1000, "calls that are sampled")
_WARM_UP = flags.DEFINE_integer("warm_up", 150, "calls before")
_LEAST = flags.DEFINE_float("least", 0.01, "share of a call that a line needs")


def main(_: Sequence[str]) -> None:
    import numpy as np

    from tools.benchmark.region_cases import make_step

    step = make_step(_WORKLOAD.value, _MODE.value, _BACKEND.value)

    def calls(count: int) -> float:
        """Microseconds of a call until it returns."""
        start = time.perf_counter()
        for _ in range(count):
            result = step()
        returned = time.perf_counter()
        np.asarray(result)
        return (returned - start) / count * 1e6

    calls(_WARM_UP.value)
    before = thread_seconds()
    print(f"{_WORKLOAD.value} {_MODE.value} with {_BACKEND.value}: {calls(_CALLS.value):.0f} us until a call returns")
    caller = threading.get_native_id()
    busy = {thread: (name, (seconds - before[thread][1]) / _CALLS.value * 1e6)
            for thread, (name, seconds) in thread_seconds().items() if thread in before}  # fmt: skip
    shown = [t for t, (_, us) in busy.items() if us > BUSY_US or t == caller]
    took: list[float] = []
    stacks = sample(lambda: took.append(calls(_CALLS.value)), shown)
    print(f"{took[0]:.0f} us while sampled; microseconds below are of these")
    for thread in sorted(shown, key=lambda t: (t != caller, -busy[t][1])):
        name, us = busy[thread]
        print(f"\n{name}{', the caller' if thread == caller else ''}: runs {us:.0f} us a call; innermost functions:")
        print("\n".join(hottest(stacks[thread], took[0], _LEAST.value * took[0])))
        print("and who called whom:")
        print("\n".join(tree(stacks[thread], took[0], _LEAST.value * took[0])))


if __name__ == "__main__":
    app.run(main)
