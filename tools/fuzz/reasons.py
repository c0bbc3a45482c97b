"""Why programs that differ do so, where TensorFlow is not the one that is right: what stands in docs/limits.md."""

from __future__ import annotations

from collections.abc import Mapping

_SELU = "TensorFlow's GPU kernel has selu's constants in float32 for float64, too: off by 3e-8"

REASONS: Mapping[tuple[str, str, int], str] = {
    ("nnsmith", "cpu", 21379): "a tangent beside its pole of a quotient of halves, which a kernel does not round",
    ("ops", "cpu", 20343): "logits and labels of other numbers of classes, one of them 1, unknown in the graph",
    ("ops", "cpu", 20536): "a gradient through a float32 in another order, cast to float64",
    ("ops", "gpu", 30032): _SELU,
    ("ops", "gpu", 30357): "lgamma beside its zero at 1: ours is right to 7 digits, TensorFlow's GPU kernel to 3",
    ("ops", "gpu", 30358): _SELU,
    ("ops", "gpu", 30620): "a product that overflows in one order, and in the other does not, times 0",
}
"""Generator, device, seed -> why."""
