"""The comparison of predictions with measurements, as figures and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tools.benchmark.raw_rows import MOST_ROWS


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median absolute error of all, and of each group; and how far the worst is."""
    groups = ["all", *dict.fromkeys(row["group"] for row in rows)]
    found = {}
    for group in groups:
        errors = [abs(r["error"]) for r in rows if group in ("all", r["group"]) and math.isfinite(r["error"])]
        logs = [abs(math.log(1 + r["error"])) for r in rows if group in ("all", r["group"]) and r["error"] > -1]
        found[group] = {"kernels": len(errors), "median_error": round(median(errors), 4),
                        "within_30_percent": round(sum(e < 0.3 for e in errors) / len(errors), 3),
                        "largest_factor": round(math.exp(max(logs)), 2)}  # fmt: skip
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The report for people."""
    machine = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    profile = ", ".join(f"{key} {value}" for key, value in document["profile"].items())
    lines = ["# Predicted and measured times of kernels", "", f"Measured: {machine}.", "", f"Profile: {profile}.", "",
             "Made by `python -m tools.cost_report`. Error: predicted / measured - 1. Each kernel is repeated over the "
             "same "
             "memory.", "", "| kernels | number | median absolute error | within 30 % | largest factor |",
             "| --- " * 5 + "|"]  # fmt: skip
    for group, figures in document["summary"].items():
        lines.append(f"| {group} | {figures['kernels']} | {figures['median_error']:.1%} | "
                     f"{figures['within_30_percent']:.0%} | {figures['largest_factor']} |")  # fmt: skip
    if document.get("not_measured"):
        lines += ["", f"{document['not_measured']} kernels were not measured: they have changed since."]
    furthest = sorted(document["kernels"], key=lambda r: -_factor(r))
    lines += ["", f"The {MOST_ROWS} that are furthest off:", "",
              "| kernel | rule | domain | ops | measured us | predicted us | error |", "| --- " * 7 + "|"]  # fmt: skip
    for r in furthest[:MOST_ROWS]:
        name = r["subgraph"] if r["group"] in ("peers", "irregular") else f"{r['group']}: {r['subgraph']}"
        lines.append(f"| {name} | {r['rule']} | {r['domain'][0]}x{r['domain'][1]} | {r['ops']} | "
                     f"{r['measured_us']:.2f} | {r['predicted_us']:.2f} | {r['error']:+.0%} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def _factor(row: Mapping[str, Any]) -> float:
    """How many times the prediction is off, in either direction, as a logarithm."""
    ratio = 1 + row["error"]
    return abs(math.log(ratio)) if ratio > 0 else math.inf
