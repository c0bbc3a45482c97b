"""Compares a script's results without and with TF_STITCH=1, and says what was stitched.

`compare_runs.py FOLDER` reads plain.json, stitched.json and report.json there; exits 1 if the losses differ.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

TOLERANCES = ((10, 1e-5), (50, 1e-3))
"""(first steps, largest relative difference of a loss among them)."""


def worst_difference(plain: list[float], stitched: list[float]) -> float:
    """Largest relative difference of two loss curves; infinite if one has a NaN where the other has none."""
    worst = 0.0
    for a, b in zip(plain, stitched, strict=True):
        if a != b and not (a != a and b != b):
            difference = abs(a - b) / max(abs(a), 1e-30)
            worst = max(worst, difference if difference == difference else float("inf"))
    return worst


def compare_losses(plain: list[float], stitched: list[float]) -> bool:
    """Prints how the curves differ; whether they agree."""
    if len(plain) != len(stitched):
        print(f"losses: {len(plain)} steps against {len(stitched)}")
        return False
    agree = True
    for steps, tolerance in TOLERANCES:
        worst = worst_difference(plain[:steps], stitched[:steps])
        verdict = "same" if worst <= tolerance else "DIFFERENT"
        print(f"losses, first {min(steps, len(plain))} steps: {verdict} "
              f"(largest relative difference {worst:.1e}, allowed {tolerance:.0e})")  # fmt: skip
        agree &= worst <= tolerance
    return agree


def print_times(plain: dict[str, Any], stitched: dict[str, Any]) -> None:
    """A row for every time that both runs noted."""
    print(f"\n{'':28}{'plain':>12}{'TF_STITCH=1':>14}{'speed-up':>10}")
    for name in (name for name in plain if name.endswith("_ms") and name in stitched):
        label = name.removesuffix("_ms").replace("_", " ") + ", ms"
        print(f"{label:28}{plain[name]:12.2f}{stitched[name]:14.2f}{plain[name] / stitched[name]:9.2f}x")


def print_report(report: dict[str, Any]) -> None:
    """What was stitched, what was not and why, in a few lines."""
    # TensorFlow offers a graph again after it was rewritten: only the first time tells.
    graphs = [graph for graph in report["graphs"] if graph["stitched_nodes"]]
    stitched, nodes = (sum(graph["stitched_nodes"] for graph in graphs), sum(len(graph["nodes"]) for graph in graphs))
    regions, kernels = report["regions"], report["kernels"]
    print(f"\n{len(graphs)} graphs rewritten: {stitched} of their {nodes} nodes are in {len(regions)} regions, "
          f"{len(kernels)} kernels")  # fmt: skip
    wraps = Counter(region["wrap"] for region in regions)
    runs = sum(region["runs"] for region in regions)
    print(f"regions by kind: {_counts(wraps)}; they ran {runs} times")
    print(f"kernels by rule: {_counts(Counter(kernel['rule'] for kernel in kernels))}")
    largest = max(regions, key=lambda region: len(region["nodes"]), default=None)
    if largest is not None:
        print(f"largest region: {len(largest['nodes'])} nodes ({_counts(Counter(largest['nodes'].values()))})")
    reasons: Counter[str] = Counter()
    for graph in graphs:
        reasons.update(graph["left_out"])
    print(f"left to TensorFlow: {_counts(reasons)}")
    for fallback in report["fallbacks"]:
        print(f"fallback ({fallback['stage']}, {fallback['count']} times) {fallback['where']}: {fallback['reason']}")
    if not report["fallbacks"]:
        print("fallbacks: none")


def _counts(counter: Counter[str]) -> str:
    """The most common, with their counts."""
    return ", ".join(f"{name} {count}" for name, count in counter.most_common(6)) or "none"


def main(folder: Path) -> int:
    """The exit status: 0 if the losses agree and something was stitched."""
    plain, stitched = (json.loads((folder / f"{name}.json").read_text()) for name in ("plain", "stitched"))
    agree = compare_losses(plain["losses"], stitched["losses"])
    print_times(plain, stitched)
    path = folder / "report.json"
    if not path.exists():
        print("\nno report.json: tf_stitch was not active in the second run")
        return 1
    report = json.loads(path.read_text())
    print_report(report)
    print(f"report: {path}")
    if not report.get("regions"):
        print("nothing was stitched")
        return 1
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
