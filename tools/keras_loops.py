"""Keras' own loops: a network under `fit`, `predict` and `train_on_batch`, by TensorFlow, tf_stitch, Keras on JAX.

    python -m tools.keras_loops --networks=drawn:42,mobilenet_v3_large_train --batches=1,32 --steps=1,32

Keras' defaults: on TensorFlow `jit_compile="auto"`, which is XLA where it can. Data are arrays; `fit` has a callback
that reads the loss of each batch. Each backend runs a loop in a process of its own; first epochs run side by side, then
one process works at a time, in turns. Prints CSV: milliseconds of a step, the median over the turns with the least and
the most, and seconds of the first epoch, of 64 steps. `train_on_batch` has one step an execution.
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Sequence

from absl import app, flags

from tools.benchmark.loop_turns import FIELDS, measured
from tools.benchmark.loop_worker import LOOPS

_NETWORKS = flags.DEFINE_list("networks", ["mobilenet_v3_large_train"], "of tools/benchmark/networks.py")
_LOOPS = flags.DEFINE_list("loops", list(LOOPS), "what runs")
_BATCHES = flags.DEFINE_list("batches", ["1", "32"], "sizes of batches")
_STEPS = flags.DEFINE_list("steps", ["1", "32"], "steps_per_execution")
_BACKENDS = flags.DEFINE_list("backends", ["tf", "stitch", "jax"], "tf, stitch, jax")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "turns of each")
_READY = flags.DEFINE_float("ready", 120, "seconds for the first epochs of a group")


def main(_: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, FIELDS)
    writer.writeheader()
    for network, loop, batch, steps in itertools.product(_NETWORKS.value, _LOOPS.value, _BATCHES.value, _STEPS.value):
        if loop == "train_on_batch" and steps != "1":
            continue
        writer.writerows(measured(network, loop, batch, steps, _BACKENDS.value, _ROUNDS.value, _READY.value))
        sys.stdout.flush()


if __name__ == "__main__":
    app.run(main)
