"""Requests of many lengths through an encoder: TensorFlow, XLA (jit_compile=True) and tf_stitch, compilation included.

Each backend runs in a process of its own and gets the same requests in the same order, one at a time and in turns, with
no kernel built before. Every length occurs at least once; the rest are drawn again. Writes benchmarks/cpu_dynamic.md
and, from it, cpu_dynamic.md (h200_dynamic with --device=gpu).

    python -m tools.dynamic_benchmark
    python -m tools.dynamic_benchmark --device=gpu --width=512 --batch=8
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from absl import app, flags

from tf_stitch.config import load_config
from tools.benchmark import workers
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows

ROOT = Path(__file__).resolve().parents[1]


_DEVICE = flags.DEFINE_enum("device", "cpu", ["cpu", "gpu"], "where")
_BACKENDS = flags.DEFINE_list("backends", list(workers.BACKENDS.values()), "with what")
_LAYERS = flags.DEFINE_integer("layers", 6, "of the encoder")
_WIDTH = flags.DEFINE_integer("width", 128, "of the encoder")
_HEADS = flags.DEFINE_integer("heads", 8, "of attention")
_BATCH = flags.DEFINE_integer("batch", 4, "sequences of a request")
_LENGTHS = flags.DEFINE_integer("lengths", 50, "different lengths, the first two being 17 and 1")
_LONGEST = flags.DEFINE_integer("longest", 512, "length")
_REQUESTS = flags.DEFINE_integer("requests", 200, "in all")
_SEED = flags.DEFINE_integer("seed", 5, "of lengths and values")
_OUT = flags.DEFINE_string("out", None, "raw rows; the page goes to benchmarks/")

Result = workers.Result


def requests() -> list[int]:
    """Lengths in order: each once, then drawn from them."""
    rng = np.random.default_rng(_SEED.value)
    others = [n for n in range(2, _LONGEST.value + 1) if n != 17]
    lengths = [17, 1, *(int(n) for n in rng.choice(others, _LENGTHS.value - 2, replace=False))]
    return lengths + [int(n) for n in rng.choice(lengths, _REQUESTS.value - len(lengths))]


def measure(folder: Path) -> Result:
    """Times of every request on every backend, and how results differ from TensorFlow's."""
    sizes = (_LAYERS.value, _WIDTH.value, _HEADS.value, _BATCH.value)
    cache = {"TF_STITCH_CACHE": str(folder / "cache")}
    started = {backend: workers.Worker("dynamic_worker", backend, _DEVICE.value, *sizes, backend=backend,
                                       variables=cache) for backend in _BACKENDS.value}
    lengths = requests()
    seconds: dict[str, list[float]] = {backend: [] for backend in started}
    differs = dict.fromkeys(started, 0.0)
    for i, length in enumerate(lengths):
        samples = {}
        for backend in [*started][i % len(started):] + [*started][:i % len(started)]:
            answer = started[backend].ask(length, _SEED.value + i)
            seconds[backend].append(answer["seconds"])
            samples[backend] = np.asarray(answer["sample"])
        for backend, sample in samples.items():
            wanted = samples.get("tensorflow", sample)
            differs[backend] = max(differs[backend], float(np.max(np.abs(sample - wanted))))
        print(f"\r{i + 1} of {len(lengths)}", end="", file=sys.stderr, flush=True)
    for worker in started.values():
        worker.close()
    first = {length: i for i, length in reversed(list(enumerate(lengths)))}.values()
    later = [i for i in range(len(lengths)) if i not in first]
    return {"lengths": lengths, "total_s": {b: sum(s) for b, s in seconds.items()},
            "first_request_s": {b: s[0] for b, s in seconds.items()},
            "second_request_s": {b: s[1] for b, s in seconds.items()},
            "new_length_ms": {b: statistics.median(s[i] for i in sorted(first)[2:]) * 1e3 for b, s in seconds.items()},
            "known_length_ms": {b: statistics.median(s[i] for i in later) * 1e3 for b, s in seconds.items()},
            "largest_difference": differs, "tf_stitch": _said(started), "seconds": seconds}


def _said(started: Mapping[str, workers.Worker]) -> Result:
    """What tf_stitch's report says of builds and fallbacks."""
    document = started["tf_stitch"].report() if "tf_stitch" in started else None
    if document is None:
        return {}
    builds = [region["builds"] for region in document["regions"]]
    return {"regions": len(builds), "most_builds_of_a_region": max(builds), "builds": sum(builds),
            "builds_behind": sum(region["builds_behind"] for region in document["regions"]),
            "fallbacks": document["fallbacks"]}


def table(document: Result) -> str:
    """The result as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    result, run = document["result"], document["run"]
    lines = ["# Requests of many lengths", "", f"{machine}.", "",
             f"{len(result['lengths'])} requests of {len(set(result['lengths']))} lengths up to "
             f"{max(result['lengths'])} (seed {run['seed']}) through a Keras encoder of {run['layers']} layers, "
             f"{run['width']} wide, {run['heads']} heads, batch {run['batch']}, on a {run['device'].upper()}; "
             "backends in turns, nothing compiled before. Made by `python -m tools.dynamic_benchmark`.", "",
             "| | " + " | ".join(result["total_s"]) + " |", "| --- |" + " --- |" * len(result["total_s"])]
    for title, key, form in (("all requests, s", "total_s", ".1f"), ("first request, s", "first_request_s", ".2f"),
                             ("second request (another length), s", "second_request_s", ".2f"),
                             ("a further new length, median ms", "new_length_ms", ".1f"),
                             ("a known length, median ms", "known_length_ms", ".1f"),
                             ("largest difference from TensorFlow", "largest_difference", ".0e")):
        lines.append(f"| {title} | " + " | ".join(format(v, form) for v in result[key].values()) + " |")
    said = result["tf_stitch"]
    if said:
        lines += ["", f"tf_stitch: {said['regions']} regions, {said['builds']} builds for sizes at hand, at most "
                      f"{said['most_builds_of_a_region']} for a region, {said['builds_behind']} runs of a compiler "
                      f"beside the program for sizes to come, {len(said['fallbacks'])} kinds of fallback."]
    return "\n".join(lines) + "\n"


def main(_: Sequence[str]) -> None:
    name = "cpu_dynamic" if _DEVICE.value == "cpu" else "h200_dynamic"
    out = Path(_OUT.value or raw_rows(name))
    with tempfile.TemporaryDirectory() as folder:
        native = load_config().cache_dir / "native"
        if native.exists():  # the op's own library is not what is measured
            shutil.copytree(native, Path(folder, "cache", "native"))
        run = {f.name: f.value for f in (_DEVICE, _LAYERS, _WIDTH, _HEADS, _BATCH, _SEED)}
        machine = describe_cpu() | (describe_gpu() if _DEVICE.value == "gpu" else {})
        document: Result = {"machine": machine, "command": command_line(sys.argv), "run": run,
                            "result": measure(Path(folder))}
    write_rows(out, document)
    page_of(out).write_text(table(document))
    print(table(document))


if __name__ == "__main__":
    app.run(main)
