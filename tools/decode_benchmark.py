"""Times the decoding of models/decoding.py: TensorFlow, XLA and tf_stitch in a process each, call by call in turns.

    python -m tools.decode_benchmark                                  GPT-2 6x768, 96 words, batch 1, float32
    python -m tools.decode_benchmark --batch=16 --policy=mixed_bfloat16
    python -m tools.decode_benchmark --config=medium --batch=16 --turns=5 --backends=tf,stitch
    python -m tools.decode_benchmark --config=paper,medium --batch=1,16 --out=benchmarks/raw/cpu_decoding.json.gz

Prints milliseconds of a call (medians, and the quartiles; and of processors, which tell more where others are at work),
seconds of the first call, whether texts are TensorFlow's, and what became of the loop. With --out the rows of all
configurations, batches and policies go to a file, and a page to benchmarks/.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import app, flags

from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.raw_rows import command_line, page_of, write_rows
from tools.benchmark.workers import BACKENDS, Worker

_CONFIG = flags.DEFINE_list("config", ["paper"], "of models/decoding.py")
_BATCH = flags.DEFINE_list("batch", ["1"], "texts at once")
_SAMPLER = flags.DEFINE_enum("sampler", "likeliest", ["likeliest", "draw"], "how words are chosen")
_TF32 = flags.DEFINE_boolean("tf32", True, "whether matmuls on GPUs may be TF32; without it texts have to be equal")
_POLICY = flags.DEFINE_list("policy", ["float32"], "of element types; mixed_bfloat16, for example")
_BACKENDS = flags.DEFINE_list("backends", list(BACKENDS), "of tf, xla, stitch")
_WARM_UP = flags.DEFINE_integer("warm_up", 12, "calls of tf_stitch before those that are timed: its check takes eight")
_TURNS = flags.DEFINE_integer("turns", 15, "calls of each that are timed")
_OUT = flags.DEFINE_string("out", "", "file of rows")


def measure(config: str, batch: int, policy: str) -> dict[str, Any]:
    """A row: seconds of calls, of processors, and of the first call by backend, and whether texts are the first's."""
    workers = {name: Worker("decode_worker", config, batch, _SAMPLER.value, _TF32.value, policy, name,
                            backend=BACKENDS[name]) for name in _BACKENDS.value}
    first = {}
    for worker in workers.values():
        worker.wait()
    for name, worker in workers.items():
        first[name] = worker.ask(1)
    for name, worker in workers.items():
        worker.ask(_WARM_UP.value if name == "stitch" else 2)
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    processor: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(_TURNS.value):
        for name, worker in workers.items():
            answer = worker.ask(1)
            seconds[name] += answer["seconds"]
            processor[name] += answer["processor"]
    texts = next(iter(first.values()))["texts"]
    row = {"config": config, "batch": batch, "policy": policy, "sampler": _SAMPLER.value, "seconds": seconds,
           "processor": processor, "first": {name: answer["seconds"][0] for name, answer in first.items()},
           "same_texts": {name: answer["texts"] == texts for name, answer in first.items()}}
    _print_times(row)
    for name, worker in workers.items():
        print(*worker.said(), sep="\n")
        if name == "stitch":
            _print_loops(worker.report() or {})
    return row


def milliseconds(times: Sequence[float]) -> str:
    """The median with quartiles."""
    low, middle, high = (1e3 * x for x in statistics.quantiles(times, n=4))
    return f"{middle:.4g} ({low:.4g} to {high:.4g})"


def page(document: dict[str, Any]) -> str:
    """The rows as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    backends = list(document["rows"][0]["seconds"])
    others = [name for name in backends if name != "stitch"]
    titles = ["texts", *backends, *(f"{name} / stitch" for name in others), "first call, s"]
    lines = ["# Decoding", "", f"{machine}.", "", f"Made by `{document['command']}`.", "",
             "Milliseconds of a call that decodes `models/decoding.py`'s words, medians with quartiles, in turns.", "",
             f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    for row in document["rows"]:
        middle = {name: statistics.median(times) for name, times in row["seconds"].items()}
        same = [name for name in others if not row["same_texts"].get(name, True)]
        cells = [f"{row['config']}, {row['batch']}, {row['policy']}" + "".join(f", {name}'s differ" for name in same),
                 *(milliseconds(row["seconds"][name]) for name in backends),
                 *(f"{middle[name] / middle['stitch']:.2f}" for name in others if "stitch" in middle),
                 ", ".join(f"{seconds:.1f}" for seconds in row["first"].values())]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _print_times(row: dict[str, Any]) -> None:
    print(f"{row['config']}, batch {row['batch']}, {row['sampler']}, {row['policy']}, "
          f"medians of {_TURNS.value} calls in turns")
    for name, times in row["seconds"].items():
        processor = 1e3 * statistics.median(row["processor"][name])
        print(f"{name:7} {milliseconds(times)} ms, of processors {processor:.4g}, first call "
              f"{row['first'][name]:.1f} s{'' if row['same_texts'][name] else ', other texts'}", flush=True)


def _print_loops(report: dict[str, Any]) -> None:
    for graph in report.get("graphs", ()):
        for loop in graph["loops"]:
            print(f"loop {loop['name']}: {loop['reason'] or f'''one op of regions {loop['regions']}'''}")
    for region in report.get("regions", ()):
        print(f"region {region['id']}: {region['runs']} runs, {region['fallbacks']} fallbacks, graphs "
              f"{region.get('cuda_graphs')}")
    for entry in report.get("fallbacks", ()):
        print(f"fallback: {entry}")


def main(_: Sequence[str]) -> None:
    document: dict[str, Any] = {"machine": describe_gpu() | describe_cpu(), "command": command_line(sys.argv),
                                "rows": []}
    for config, batch, policy in itertools.product(_CONFIG.value, map(int, _BATCH.value), _POLICY.value):
        document["rows"].append(measure(config, batch, policy))
        if _OUT.value:
            out = Path(_OUT.value)
            write_rows(out, document)
            page_of(out).write_text(page(document))


if __name__ == "__main__":
    app.run(main)
