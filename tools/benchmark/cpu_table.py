"""The page of tools/cpu_subgraphs.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    machine = ", ".join(f"{key} {value}" for key, value in rows[0]["machine"].items())
    lines = ["# Memory-intensive subgraphs on a CPU", "", f"{machine}.", "",
             "Made by `python -m tools.cpu_subgraphs`.", "",
             "Microseconds a call of a tf.function, f32, TensorFlow's strongest op for each; medians of turns. Floor: "
             "each matrix read and written once (batch norm: x twice) at the bandwidth of TensorFlow's Neg over 256 MB "
             "in the same run; what fits into the cache can be faster. The first row is a part of the others: for the "
             "most part TensorFlow's Python.", "",
             "| subgraph | floor | TensorFlow | XLA | tf_stitch | TensorFlow / tf_stitch | best of both / tf_stitch | "
             "kernels |", "| --- " * 8 + "|"]  # fmt: skip
    for row in rows:
        best = min(row["tf_us"], row["xla_us"])
        cells = [row["name"], *(f"{row[c]:.0f}" for c in ("floor_us", "tf_us", "xla_us", "stitch_us")),
                 f"{row['tf_us'] / row['stitch_us']:.2f}", f"{best / row['stitch_us']:.2f}",
                 f"{row['launches']}" + ("" if row["right"] else " WRONG")]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
