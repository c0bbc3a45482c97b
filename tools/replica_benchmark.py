"""Data-parallel training by Keras' `fit` under MirroredStrategy, on one GPU and on several, TensorFlow and tf_stitch.

Each network has a process for each backend and number of GPUs. First calls run side by side; then one process works at
a time, in turns. Prints CSV: medians of a step's milliseconds over the turns with the least and the most, the loss
after all steps, of tf_stitch how many regions there are, how many the profitability check has decided on, and what fell
back.

    python -m tools.replica_benchmark --replicas=1,2      # GPT-2 and ResNet-50 on two GPUs, about 8 minutes
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from absl import app, flags

from tools.benchmark.timed_case import TimedCase
from tools.benchmark.workers import BACKENDS, Worker

FIELDS = ("network", "backend", "replicas", "median_ms", "least_ms", "most_ms", "first_epoch_s", "loss", "regions",
          "checked", "fallbacks")  # fmt: skip

_NETWORKS = flags.DEFINE_list("replicated_networks", ["gpt2_train", "resnet50_train"],
                              "of tools/benchmark/network_cases.py")
_BACKENDS = flags.DEFINE_list("replica_backends", ["tf", "stitch"], "tf, stitch; XLA refuses replicas")
_REPLICAS = flags.DEFINE_list("replicas", ["1", "2"], "numbers of GPUs")
_ROUNDS = flags.DEFINE_integer("replica_rounds", 5, "turns of each process")
_STEPS = flags.DEFINE_integer("replica_steps", 24, "steps of a turn that are timed, after a quarter as many")
_WARM_UP = flags.DEFINE_integer("replica_warm_up", 40,
                                "steps before the first turn: CUDA graphs are made; the check decides")
_READY = flags.DEFINE_float("replica_ready", 300, "seconds for the first steps of all processes")


class _Case(TimedCase):
    """A network on a backend with so many replicas."""

    def __init__(self, network: str, short: str, replicas: str) -> None:
        ours = {"TF_STITCH_SCOPE": "region", "TF_STITCH_FIRST_STEP_SECONDS": "600"} if short == "stitch" else {}
        worker = Worker("replica_worker", network, replicas, backend=BACKENDS[short], variables=ours)
        super().__init__(worker, network=network, backend=BACKENDS[short], replicas=replicas)

    def steps(self, before: int, timed: int, limit: float) -> float | None:
        """Seconds of the epoch before the timed one; None where the process failed."""
        answer = self.ask(before, timed, limit=limit)
        if answer is None:
            return None
        self.row["loss"] = f"{answer['loss']:.6g}"
        if timed:
            self.times.append(answer["ms"])
        return float(answer["warm_up_s"])

    def finish(self) -> dict[str, object]:
        """The row; the process ends."""
        report = self.end()
        if report is not None:
            self.row |= {"regions": len(report["regions"]), "checked": len(report["profitability"]),
                         "fallbacks": "; ".join(f"{f['count']} {f['reason']}" for f in report["fallbacks"])}
        return self.row


def measure(networks: Sequence[str]) -> list[dict[str, object]]:
    """A row for each network, backend and number of replicas; one that fails has its error in `median_ms`."""
    cases = [_Case(network, short, replicas) for network in networks for replicas in _REPLICAS.value
             for short in _BACKENDS.value]  # fmt: skip
    end = time.monotonic() + _READY.value
    with ThreadPoolExecutor(len(cases)) as pool:
        firsts = list(pool.map(lambda case: case.steps(2, 0, end - time.monotonic()), cases))
    for case, seconds in zip(cases, firsts, strict=True):
        if seconds is not None:
            case.row["first_epoch_s"] = round(seconds, 1)
            case.steps(_WARM_UP.value, 0, 60)
    for _ in range(_ROUNDS.value):
        for case in cases:
            case.steps(_STEPS.value // 4, _STEPS.value, 60)
    return [case.finish() for case in cases]


def main(_: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, FIELDS)
    writer.writeheader()
    writer.writerows(measure(_NETWORKS.value))


if __name__ == "__main__":
    app.run(main)
