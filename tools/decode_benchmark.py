"""Times the decoding of models/decoding.py: TensorFlow, XLA and tf_stitch in a process each, call by call in turns.

    python -m tools.decode_benchmark                                  GPT-2 6x768, 96 words, batch 1, float32
    python -m tools.decode_benchmark --batch=16 --policy=mixed_bfloat16
    python -m tools.decode_benchmark --config=medium --batch=16 --turns=5 --backends=tf,stitch

Prints milliseconds of a call (medians, and the quartiles; and of processors, which tell more where others are at work),
seconds of the first call, whether texts are TensorFlow's, and what became of the loop.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from tools.benchmark.workers import BACKENDS, Worker

_CONFIG = flags.DEFINE_string("config", "paper", "of models/decoding.py")
_BATCH = flags.DEFINE_integer("batch", 1, "texts at once")
_SAMPLER = flags.DEFINE_enum("sampler", "likeliest", ["likeliest", "draw"], "how words are chosen")
_TF32 = flags.DEFINE_boolean("tf32", True, "whether matmuls on GPUs may be TF32; without it texts have to be equal")
_POLICY = flags.DEFINE_string("policy", "float32", "of element types; mixed_bfloat16, for example")
_BACKENDS = flags.DEFINE_list("backends", list(BACKENDS), "of tf, xla, stitch")
_WARM_UP = flags.DEFINE_integer("warm_up", 12, "calls of tf_stitch before those that are timed: its check takes eight")
_TURNS = flags.DEFINE_integer("turns", 15, "calls of each that are timed")


def main(_: Sequence[str]) -> None:
    workers = {name: Worker("decode_worker", _CONFIG.value, _BATCH.value, _SAMPLER.value, _TF32.value,
                            _POLICY.value, name, backend=BACKENDS[name]) for name in _BACKENDS.value}
    first = {}
    for worker in workers.values():
        worker.wait()
    for name, worker in workers.items():
        first[name] = worker.ask(1)
        print(f"{name:7} first call {first[name]['seconds'][0]:.1f} s", flush=True)
    for name, worker in workers.items():
        worker.ask(_WARM_UP.value if name == "stitch" else 2)
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    processor: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(_TURNS.value):
        for name, worker in workers.items():
            answer = worker.ask(1)
            seconds[name] += answer["seconds"]
            processor[name] += answer["processor"]
    print(f"{_CONFIG.value}, batch {_BATCH.value}, {_SAMPLER.value}, {_POLICY.value}, "
          f"medians of {_TURNS.value} calls in turns")
    for name, times in seconds.items():
        low, middle, high = (1e3 * x for x in statistics.quantiles(times, n=4))
        same = first[name]["texts"] == next(iter(first.values()))["texts"]
        print(f"{name:7} {middle:9.2f} ms ({low:.2f} to {high:.2f}), of processors "
              f"{1e3 * statistics.median(processor[name]):.2f}{'' if same else ', other texts'}", flush=True)
    for name, worker in workers.items():
        print(*worker.said(), sep="\n")
        if name == "stitch":
            _print_loops(worker.report() or {})


def _print_loops(report: dict[str, Any]) -> None:
    for graph in report.get("graphs", ()):
        for loop in graph["loops"]:
            print(f"loop {loop['name']}: {loop['reason'] or f'''one op of regions {loop['regions']}'''}")
    for region in report.get("regions", ()):
        print(f"region {region['id']}: {region['runs']} runs, {region['fallbacks']} fallbacks, graphs "
              f"{region.get('cuda_graphs')}")
    for entry in report.get("fallbacks", ()):
        print(f"fallback: {entry}")


if __name__ == "__main__":
    app.run(main)
