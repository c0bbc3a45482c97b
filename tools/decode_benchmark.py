"""Times the decoding of models/decoding.py: TensorFlow, XLA and tf_stitch in a process each, call by call in turns.

    python -m tools.decode_benchmark                                  GPT-2 6x768, 96 words, batch 1, float32
    python -m tools.decode_benchmark --batch=16 --policy=mixed_bfloat16
    python -m tools.decode_benchmark --config=medium --batch=16 --turns=5 --backends=tf,stitch
    python -m tools.decode_benchmark --config=paper,medium --batch=1,16 --out=benchmarks/raw/cpu_decoding.json.gz

Prints milliseconds of a call (medians, and the quartiles; and of processors, which tell more where others are at work),
seconds of the first call, whether texts are TensorFlow's, and what became of the loop. With --out the rows of all
configurations, batches and policies go to a file, and a page to benchmarks/; with --csv medians are appended to one as
benchmarks/decoding_gpu.csv.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import itertools
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.benchmark.machine import commit, describe_cpu, describe_gpu
from tools.benchmark.raw_rows import command_line, page_of, write_rows
from tools.benchmark.workers import BACKENDS, Worker


def measure(config: str, batch: int, policy: str, options: argparse.Namespace) -> dict[str, Any]:
    """A row: seconds of calls, of processors, and of the first call by backend, and whether texts are the first's."""
    workers = {name: Worker("decode_worker", config, batch, options.sampler, bool(options.tf32), policy, name,
                            backend=BACKENDS[name]) for name in options.backends.split(",")}
    first = {}
    for worker in workers.values():
        worker.wait()
    for name, worker in workers.items():
        first[name] = worker.ask(1)
    for name, worker in workers.items():
        worker.ask(options.warm_up if name == "stitch" else 2)
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    processor: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(options.turns):
        for name, worker in workers.items():
            answer = worker.ask(1)
            seconds[name] += answer["seconds"]
            processor[name] += answer["processor"]
    texts = next(iter(first.values()))["texts"]
    row = {"config": config, "batch": batch, "policy": policy, "sampler": options.sampler, "seconds": seconds,
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


def append_csv(path: Path, row: dict[str, Any]) -> None:
    """Appends a row's medians and quartiles, in milliseconds, to a CSV file whose first line names the columns. A
    backend that did not run is left empty.

    Raises:
        KeyError: the file has a column of which nothing is known.
    """
    gpu = str(describe_gpu().get("gpu", "")).removeprefix("NVIDIA ")
    known = {"date": str(dt.date.today()), "commit": commit(), "gpu": gpu,
             "batch": row["batch"], "policy": row["policy"]}  # fmt: skip
    for column, name in (("xla", "xla"), ("tf_stitch", "stitch")):
        times = row["seconds"].get(name, [])
        low, middle, high = (1e3 * x for x in statistics.quantiles(times, n=4)) if times else (0.0, 0.0, 0.0)
        known |= {f"{column}_ms": f"{middle:.4g}" if times else "",
                  f"{column}_quartiles": f"{low:.4g} to {high:.4g}" if times else ""}  # fmt: skip
    with path.open(newline="") as file:
        names = next(csv.reader(file))
    with path.open("a", newline="") as file:
        csv.DictWriter(file, names, lineterminator="\n").writerow({name: known[name] for name in names})


def _print_times(row: dict[str, Any]) -> None:
    print(f"{row['config']}, batch {row['batch']}, {row['sampler']}, {row['policy']}, "
          f"medians of {len(next(iter(row['seconds'].values())))} calls in turns")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="paper", help="of models/decoding.py, several with commas between")
    parser.add_argument("--batch", default="1", help="texts at once, several with commas between")
    parser.add_argument("--policy", default="float32", help="of element types, several with commas between")
    parser.add_argument("--sampler", default="likeliest", choices=("likeliest", "draw"), help="how words are chosen")
    parser.add_argument("--tf32", type=int, choices=(0, 1), default=1,
                        help="whether matmuls on GPUs may be TF32; without it texts have to be equal")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="of tf, xla, stitch")
    parser.add_argument("--warm_up", type=int, default=12,
                        help="calls of tf_stitch before those that are timed: its check takes eight")
    parser.add_argument("--turns", type=int, default=15, help="calls of each that are timed")
    parser.add_argument("--out", type=Path, help="file of rows; the page is beside it")
    parser.add_argument("--csv", type=Path, help="file of medians, to which rows are appended")
    options = parser.parse_args()
    document: dict[str, Any] = {"machine": describe_gpu() | describe_cpu(), "command": command_line(sys.argv),
                                "rows": []}
    batches = map(int, options.batch.split(","))
    for config, batch, policy in itertools.product(options.config.split(","), batches, options.policy.split(",")):
        document["rows"].append(measure(config, batch, policy, options))
        if options.out:
            write_rows(options.out, document)
            page_of(options.out).write_text(page(document))
        if options.csv:
            append_csv(options.csv, document["rows"][-1])


if __name__ == "__main__":
    main()
