"""Convolutional networks of Keras under TensorFlow, XLA (jit_compile=True) and tf_stitch, interleaved.

Each backend runs a network in a process of its own, in turns; the others wait. Prints CSV: medians of a call's
milliseconds over the turns with the least and the most, seconds of the first call, and of tf_stitch how many regions
there are, how many of them TensorFlow's own nodes run (the profitability check), and what fell back.

    python -m tools.conv_benchmark                                   # all of them on a GPU, about 15 minutes
    python -m tools.conv_benchmark --networks=resnet50_train --rounds=3
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Sequence

from absl import app, flags

from tools.benchmark.workers import BACKENDS, Worker

NETWORKS = {
    "resnet50_train": ("ResNet50", "train", 32, "float32"),
    "resnet50_infer": ("ResNet50", "infer", 1, "float32"),
    "mobilenet_v3_large_train": ("MobileNetV3Large", "train", 32, "float32"),
    "convnext_tiny_train": ("ConvNeXtTiny", "train", 16, "mixed_bfloat16"),
    "convnext_tiny_infer": ("ConvNeXtTiny", "infer", 1, "mixed_bfloat16"),
}
"""Model of keras.applications, mode, batch, policy of element types."""
FIELDS = ("network", "backend", "median_ms", "least_ms", "most_ms", "first_call_s", "result", "regions",
          "by_tensorflow", "fallbacks", "left_out")

_NETWORKS = flags.DEFINE_list("networks", list(NETWORKS), "what to run")
_BACKENDS = flags.DEFINE_list("backends", list(BACKENDS), "tf, xla, stitch")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "turns of each backend")
_CALLS = flags.DEFINE_integer("calls", 20, "calls of a turn")
_WARM_UP = flags.DEFINE_integer("warm_up", 60, "calls before the first turn: CUDA graphs are made; the guard decides")
_LIMIT = flags.DEFINE_float("limit", 300, "seconds for an answer")


def measure(network: str) -> list[dict[str, object]]:
    """A row for each backend; one that fails has its error in `median_ms`."""
    model, mode, batch, policy = NETWORKS[network]
    rows: dict[str, dict[str, object]] = {}
    workers: dict[str, Worker] = {}
    times: dict[str, list[float]] = {}
    for short in _BACKENDS.value:
        backend = BACKENDS[short]
        rows[short] = {"network": network, "backend": backend}
        worker = Worker("conv_worker", model, mode, batch, policy, backend, backend=backend)
        try:
            first = worker.ask(1, 0, limit=_LIMIT.value)
            worker.ask(_WARM_UP.value, 0, limit=_LIMIT.value)
        except (RuntimeError, TimeoutError) as error:
            rows[short]["median_ms"] = f"failed: {error}"
            continue
        rows[short]["first_call_s"] = round(first["warm_up_s"], 1)
        workers[short], times[short] = worker, []
    for _ in range(_ROUNDS.value):
        for short, worker in list(workers.items()):
            try:
                answer = worker.ask(5, _CALLS.value, limit=_LIMIT.value)
            except (RuntimeError, TimeoutError) as error:
                rows[short]["median_ms"] = f"failed: {error}"
                del workers[short]
                continue
            times[short].append(answer["ms"])
            rows[short]["result"] = f"{answer['result']:.6g}"
    for short, worker in workers.items():
        found = times[short]
        rows[short] |= {"median_ms": round(statistics.median(found), 3), "least_ms": round(min(found), 3),
                        "most_ms": round(max(found), 3)}
        print(*worker.said(), sep="\n", file=sys.stderr)
        rows[short] |= _regions(worker)
    return list(rows.values())


def _regions(worker: Worker) -> dict[str, object]:
    report = worker.report()
    if report is None:
        return {}
    left_out: dict[str, int] = {}
    for graph in report["graphs"]:
        for reason, count in graph["left_out"].items():
            left_out[reason] = left_out.get(reason, 0) + count
    return {"regions": len(report["regions"]),
            "by_tensorflow": sum(entry["chosen"] == "fallback" for entry in report["profitability"]),
            "fallbacks": "; ".join(f"{f['count']} {f['reason']}" for f in report["fallbacks"]),
            "left_out": "; ".join(f"{count} {reason}" for reason, count in left_out.items())}


def main(_: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, FIELDS)
    writer.writeheader()
    for network in _NETWORKS.value:
        writer.writerows(measure(network))
        sys.stdout.flush()


if __name__ == "__main__":
    app.run(main)
