"""Whether backends agree with TensorFlow on what the first calls gave."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import inf, isfinite
from typing import Any

STEPS = 20
TOLERANCES = {"float32": 2e-2, "mixed_bfloat16": 5e-2, "mixed_float16": 5e-2}
"""Relative, of losses of STEPS steps and of what is inferred: TensorFlow and JAX round float32 to TF32 in matmuls."""

LEAST = 0.25
"""Of the largest number: smaller ones count as this, such as the last losses of a batch that is learnt by heart, or a
class whose logit is near zero by chance."""


def difference(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest one, relative; infinite where only one of both is a number."""
    pairs = [*zip(_flat(found), _flat(wanted), strict=True)]
    least = max((abs(b) for _, b in pairs if isfinite(b)), default=0.0) * LEAST
    return max((_apart(a, b, least) for a, b in pairs), default=0.0)


def _apart(found: float, wanted: float, least: float) -> float:
    if not (isfinite(found) and isfinite(wanted)):
        return inf if isfinite(found) or isfinite(wanted) else 0.0
    return abs(found - wanted) / max(abs(wanted), least, 1e-30)


def said(found: Sequence[Any], wanted: Sequence[Any], policy: str, random_steps: bool) -> str:
    """For the row: how far losses are from TensorFlow's."""
    if not found:
        return ""
    if not wanted:
        return "TensorFlow has none"
    apart = difference(found, wanted)
    if random_steps:
        return f"random: {apart:.1e}"
    return f"{'' if apart <= TOLERANCES[policy] else 'DIFFER: '}{apart:.1e}"


def _flat(losses: Sequence[Any]) -> list[float]:
    return [*chain.from_iterable(losses)]
