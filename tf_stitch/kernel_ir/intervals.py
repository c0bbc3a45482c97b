"""Intervals of indices, and what of them a condition holds for."""

from __future__ import annotations

from typing import TypeAlias

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index

Interval: TypeAlias = tuple[int, int]
"""The first number, and the one after the last."""


def interval_of(index: Index) -> Interval:
    """What an index is in by its bounds."""
    low, high = index.bounds
    return low, high + 1


def length_of(interval: Interval) -> int:
    """How many numbers are in it."""
    return max(interval[1] - interval[0], 0)


def split_by(whole: Interval, condition: k.InRange) -> tuple[Interval, Interval]:
    """The part of an interval for which a condition holds, and the rest; a rest on both sides counts as one behind."""
    low, high = max(whole[0], condition.low), min(whole[1], condition.high)
    low, high = min(low, whole[1]), max(high, min(low, whole[1]))
    rest = (whole[0], low) if high >= whole[1] else (high + whole[0] - low, whole[1])
    return (low, high), rest
