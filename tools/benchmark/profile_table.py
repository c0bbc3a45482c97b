"""The table of what calls are made of, from the JSON that `region_profile.py` writes."""

from __future__ import annotations

from typing import Any

from tools.benchmark.kernel_counts import CLASSES

SHOWN = 3
"""Kernels of a form in the table, the longest first; the raw rows have all."""
NAME = 60
"""Letters of a kernel's name."""


def table(document: dict[str, Any]) -> str:
    """The result as Markdown."""
    machine = ", ".join(f"{key} {value}" for key, value in document["machine"].items())
    lines = ["# What calls of whole models are made of", "", f"{machine}.", "",
             f"Made by `{document['command']}`.", "",
             "Microseconds a call. Host: until a call has returned, of calls one after the other. Device: sums over "
             "kernels in TensorFlow's profiler; those of a CUDA graph overlap, and their wait counts as time.", "",
             "| workload | with | call | host | " + "".join(f"{c}: us (kernels) | " for c in CLASSES) + "all |",
             "| --- " * (5 + len(CLASSES)) + "|"]  # fmt: skip
    for name, forms in document["rows"].items():
        for form, seen in forms.items():
            classes = [f"{seen['class_us'][c]:.0f} ({seen['classes'][c]:.0f})" for c in CLASSES]
            cells = [name, form, f"{seen['call_us']:.0f}", f"{seen['host_us']:.0f}", *classes,
                     f"{sum(seen['class_us'].values()):.0f}"]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"The {SHOWN} kernels of each that take longest; the raw rows have all.", "",
              "| workload | with | kernel | times | us |", "| --- | --- | --- | --- | --- |"]
    for name, forms in document["rows"].items():
        for form, seen in forms.items():
            kernels = sorted([*seen["kernels"], *seen["library"]], key=lambda kernel: -kernel[2])[:SHOWN]
            lines += [f"| {name} | {form} | `{kernel[:NAME].strip()}` | {count:.0f} | {us:.1f} |"
                      for kernel, count, us, _ in kernels]
    return "\n".join(lines) + "\n"
