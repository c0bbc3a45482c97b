"""The page of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.persistent_kernels import decoder, recurrent

ROUNDS = recurrent.STEPS + 1
"""The second layer computes a step one round after the first."""
WRAPPED = 1e6
"""Cycles of a part whose clock was read too early: what was counted is below zero, and wrapped round."""


def page(document: Mapping[str, Any]) -> str:
    """Both tables as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in document["machine"].items())
    lines = ["# Persistent kernels", "", f"{machine}.", "", f"Made by `{document['command']}`.", "",
             "Medians in turns, with quartiles. Errors are the largest difference from float64 over the root mean "
             "square. Cycles are those of one warp of one block.", "",
             f"## Two LSTM layers of {recurrent.WIDTH}, batch {recurrent.BATCH}, {recurrent.STEPS} steps", "",
             "Without the matmul of the first layer's inputs. A variant: arithmetic, how states are handed on, blocks "
             "that share rows x groups of rows.", "",
             "| variant | us | us a round | error | cycles of a round: " + ", ".join(recurrent.PARTS) + " |",
             "| --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in document["recurrent"]:
        cycles = ", ".join(f"{value:,.0f}" if value < WRAPPED else "?" for value in row["cycles"].values())
        lines.append(f"| {row['variant']} | {_times(row)} | {row['us'] / ROUNDS:.2f} | {row['error']:.0e} | {cycles} |")
    lines += ["", f"## A word of GPT-2, {decoder.LAYERS} x {decoder.WIDTH}, one text, a cache of {decoder.CACHE}", "",
              "A variant: weights, how a launch or block knows that its input is there, and words of a launch (word: "
              "one; loop: all). Cycles of a word that a block without attention spends on phases of a kind.", "",
              "| variant | us a word | TB/s of weights | error | " + " | ".join(decoder.KINDS) + " |",
              "| --- | --- | --- | --- |" + " --- |" * len(decoder.KINDS)]  # fmt: skip
    for row in document["decoder"]:
        bytes_of = decoder.WEIGHTS * (2 if row["variant"].startswith("bfloat16") else 4)
        cells = [", ".join(f"{row['cycles'][f'other {kind} {part}']:,.0f}" for part in decoder.STAGES)
                 for kind in decoder.KINDS]  # fmt: skip
        lines.append(f"| {row['variant']} | {_times(row)} | {bytes_of / row['us'] / 1e6:.2f} | {row['error']:.0e} | "
                     f"{' | '.join(cells)} |")  # fmt: skip
    lines += ["", f"Of each kind: {', '.join(decoder.STAGES)}."]
    return "\n".join(lines) + "\n"


def _times(row: Mapping[str, Any]) -> str:
    low, high = row["quartiles"]
    return f"{row['us']:.1f} ({low:.1f} to {high:.1f})"
