"""Losses of networks in half types by tf_stitch beside TensorFlow's, and how far TensorFlow's own are apart where
roundings differ: from initial weights one unit in the last place of the half type up or down, of several seeds.

Each backend trains a network of `tools/benchmark/loss_cases.py` in a process of its own, with the same batches. How far
two runs are apart is the mean over the steps, and the most, of the differences of their losses. What rounds otherwise
is as far apart as roundings take it: tf_stitch's run is "within" where neither is more than the largest of TensorFlow's
perturbed runs. Writes benchmarks/half_losses.md and its rows.

    python -m tools.half_losses                                      # on a CPU, 10 minutes on 2 busy cores
    python -m tools.half_losses --out=benchmarks/raw/half_losses_h200.json.gz --tf32=0          # on a GPU, without TF32
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tools.benchmark.loss_cases import CASES
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows
from tools.benchmark.workers import Result, Worker

_LIMIT = 280.0
"""Seconds for an answer."""


def measure(case: str, seeds: int, steps: int, tf32: bool = True) -> Result:
    """Losses of a case: of TensorFlow, of its perturbed runs, and of tf_stitch."""
    variables = {"TF_STITCH_FIRST_STEP_SECONDS": "600", "TF_STITCH_GUARD": "0"}  # kernels run, however fast others are
    variables |= {} if tf32 else {"NVIDIA_TF32_OVERRIDE": "0"}
    plain = Worker("loss_worker", case, "tensorflow", backend="tensorflow", variables=variables)
    ours = Worker("loss_worker", case, "tf_stitch", backend="tf_stitch", variables=variables)
    row: Result = {"case": case, "policy": CASES[case].policy}
    row["tensorflow"], *row["perturbed"] = (
        plain.ask(seed, steps, limit=_LIMIT)["losses"] for seed in range(seeds + 1))
    row["tf_stitch"] = ours.ask(0, steps, limit=_LIMIT)["losses"]
    plain.close()
    ours.close()
    report = ours.report()
    row["regions"] = len(report["regions"]) if report else 0
    row["fallbacks"] = [f["reason"] for f in report["fallbacks"]] if report else ["no report"]
    return row


def apart(losses: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The mean and the most of the differences of two runs, step by step."""
    off = np.abs(np.subtract(losses, others))
    return float(off.mean()), float(off.max())


def spread(row: Result) -> tuple[float, float]:
    """The largest of each of those by TensorFlow's perturbed runs."""
    mean, most = zip(*(apart(losses, row["tensorflow"]) for losses in row["perturbed"]), strict=True)
    return max(mean), max(most)


def is_within(row: Result) -> bool:
    """Whether tf_stitch's losses are no farther from TensorFlow's than TensorFlow's perturbed ones."""
    return all(ours <= most for ours, most in zip(apart(row["tf_stitch"], row["tensorflow"]), spread(row), strict=True))


def table(document: Result) -> str:
    """The result as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    lines = ["# Losses in half types", "", f"{machine}.", "", f"Made by `{document['command']}`.", "",
             f"{document['steps']} steps each, from the same weights and batches. Apart: mean over the steps / most "
             "of the differences from TensorFlow's losses; of TensorFlow itself the largest of "
             f"{document['seeds']} runs whose initial weights are one unit in the last place of the half type up or "
             "down.", "",
             "| network | policy | loss, first / last | TensorFlow apart | tf_stitch apart | within | regions | "
             "fallbacks |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in document["rows"]:
        of_tf, of_ours = (" / ".join(f"{value:.2g}" for value in pair) for pair in (
            spread(row), apart(row["tf_stitch"], row["tensorflow"])))
        lines.append(f"| {row['case']} | {row['policy']} | {row['tensorflow'][0]:.3f} / {row['tensorflow'][-1]:.3f} | "
                     f"{of_tf} | {of_ours} | {'yes' if is_within(row) else 'no'} | {row['regions']} | "
                     f"{len(row['fallbacks'])} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="of tools/benchmark/loss_cases.py")
    parser.add_argument("--steps", type=int, default=50, help="of training")
    parser.add_argument("--seeds", type=int, default=4, help="of TensorFlow's perturbed runs")
    parser.add_argument("--tf32", type=int, choices=(0, 1), default=1, help="whether a GPU may use TF32")
    parser.add_argument("--out", type=Path, default=raw_rows("half_losses"), help="of the rows; the page is beside it")
    options = parser.parse_args()
    document: Result = {"machine": describe_gpu() | describe_cpu(), "command": command_line(sys.argv),
                        "steps": options.steps, "seeds": options.seeds, "tf32": bool(options.tf32), "rows": []}
    for case in options.cases.split(","):
        document["rows"].append(measure(case, options.seeds, options.steps, bool(options.tf32)))
        write_rows(options.out, document)
        page_of(options.out).write_text(table(document))
    print(table(document))


if __name__ == "__main__":
    main()
