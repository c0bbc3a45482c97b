"""Networks under TensorFlow, XLA (jit_compile=True), tf_stitch, Keras on JAX and PyTorch's Inductor, interleaved.

Each backend runs a network in a process of its own. First calls, which are the processors' work, run side by side and
so take longer than they would alone; then one process works at a time, a network's in turns. Prints CSV: medians of a
call's milliseconds over the turns with the least and the most; milliseconds in which the device works in a call, by a
profile in the end, and their share of the median; seconds of the first call; MiB that the framework's allocator handed
out on the GPU at most (from the start on, and in the last turn); and of tf_stitch how many regions there are, how many
of them the profitability check has decided on (the others may have been timed beside TensorFlow's nodes meanwhile: then
--warm_up is too low), how many TensorFlow's nodes run since, and what fell back. What is not ready when --ready seconds
are over is left out. What was measured so far is in --partial after every turn.

Beside tf, xla and stitch there are jax (the same Keras file, one compiled step whose state is donated), jax_max (with
XLA's flags of jax_worker.py), inductor (with CUDA graphs) and inductor_max (torch_worker.py), each for the networks
that it has. JAX's and PyTorch's allocators tell the peak from the start on; in a turn PyTorch's need not count what
replayed CUDA graphs use.

    python -m tools.network_benchmark                                   # all of them on a GPU
    python -m tools.network_benchmark --networks=resnet50_infer,resnet50_train --ready=110 --rounds=3 --calls=10
                                                                     # about 150 seconds
    python -m tools.network_benchmark --backends=stitch,jax,jax_max,inductor_max --networks=gpt2_train
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark.network_cases import CASES
from tools.benchmark.network_turns import Turns, measure
from tools.benchmark.peers import PEERS
from tools.benchmark.workers import BACKENDS

FIELDS = ("network", "backend", "median_ms", "least_ms", "most_ms", "device_ms", "busy", "first_call_s", "peak_mib",
          "steady_peak_mib", "result", "regions", "checked", "by_tensorflow", "fallbacks", "left_out")

_NETWORKS = flags.DEFINE_list("networks", list(CASES), "of tools/benchmark/network_cases.py")
_BACKENDS = flags.DEFINE_list("backends", list(BACKENDS), ", ".join([*BACKENDS, *PEERS]))
_ROUNDS = flags.DEFINE_integer("rounds", 5, "turns of each backend")
_CALLS = flags.DEFINE_integer("calls", 20, "calls of a turn")
_WARM_UP = flags.DEFINE_integer("warm_up", 60, "calls before the first turn: CUDA graphs are made; the check decides")
_READY = flags.DEFINE_float("ready", 300, "seconds for the first calls of all backends")
_SCOPE = flags.DEFINE_string("scope", "region", "what regions hold: TF_STITCH_SCOPE")
_PARTIAL = flags.DEFINE_string("partial", None, "JSON file for rows and times so far, should this be ended early")
_KERNELS = flags.DEFINE_string("kernels", None, "JSON file for what the device did in a call of each, in the end")
_TOGETHER = flags.DEFINE_integer("together", 2, "networks whose first calls run side by side")


def main(_: Sequence[str]) -> None:
    turns = Turns(_BACKENDS.value, _ROUNDS.value, _CALLS.value, _WARM_UP.value, _READY.value, _SCOPE.value,
                  partial=Path(_PARTIAL.value) if _PARTIAL.value else None,
                  kernels=Path(_KERNELS.value) if _KERNELS.value else None)  # fmt: skip
    writer = csv.DictWriter(sys.stdout, FIELDS)
    writer.writeheader()
    for first in range(0, len(_NETWORKS.value), _TOGETHER.value):
        for cases in measure(_NETWORKS.value[first:first + _TOGETHER.value], turns):
            writer.writerows(case.row for case in cases)
            sys.stdout.flush()


if __name__ == "__main__":
    app.run(main)
