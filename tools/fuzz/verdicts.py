"""Whether two runs of one program agree, and whether rounding alone explains it where they do not."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Result = Mapping[str, Any]

_RELATIVE = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 3e-5, "float64": 1e-11}
"""Error allowed per element, relative to itself and, an eighth of it, to the largest element of its tensor (or 1)."""
_WIDER = ({"float16", "float32"}, {"bfloat16", "float32"})
_MARGIN = 16
"""Times what noise of a few units makes of a result."""


@dataclass(frozen=True)
class Difference:
    """Where two results differ first.

    Attributes:
        kind: "value", "raises" (where TensorFlow does not), "silent" (where TensorFlow raises) or "type".
    """

    kind: str
    message: str


def difference(plain: Result, other: Result, noisy: Sequence[Result] = ()) -> Difference | None:
    """None if `other` is right.

    Args:
        noisy: plain runs with noise in what rounds, or with float32 for half types, since kernels keep those in
            float32 from op to op; what differs between them may differ.
    """
    pairs = [*zip(plain["calls"], other["calls"], strict=False), (plain["state"], other["state"])]
    if len(plain["calls"]) != len(other["calls"]):  # only one of them was traced
        return _raised(plain["calls"][0], other["calls"][0]) or Difference("type", "a different number of calls")
    for place, (want, got) in enumerate(pairs):
        where = f"call {place}" if place < len(plain["calls"]) else "variables"
        if isinstance(want, dict) or isinstance(got, dict):
            found = _raised(want, got)
            if found:
                return found
            continue
        if len(want) != len(got):
            return None if where == "variables" else Difference("type", f"{where}: {len(got)} values, not {len(want)}")
        others = [([*run["calls"], run["state"]])[place] for run in noisy if len(run["calls"]) == len(plain["calls"])]
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            message = _differs(a, b, [run[i] if isinstance(run, list) and i < len(run) else None for run in others])
            if message:
                return Difference("value", f"{where}, value {i}: {message}")
    return None


def _raised(want: Any, got: Any) -> Difference | None:
    if isinstance(want, dict) and isinstance(got, dict):
        same = want["type"] == got["type"]
        message = f"{got['type']}: {got['message']}, not {want['type']}: {want['message']}"
        return None if same else Difference("type", message)
    if isinstance(got, dict):
        return Difference("raises", f"{got['type']}: {got['message']}")
    if isinstance(want, dict):
        return Difference("silent", f"TensorFlow raises {want['type']}: {want['message']}")
    return None


def array(value: Sequence[Any]) -> Array:
    """The array that a worker wrote; strings as objects."""
    name, shape, data = value
    if name == "object":
        return np.array(data, dtype=object).reshape(shape)
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)


def _differs(want: Sequence[Any], got: Sequence[Any], noisy: Sequence[Sequence[Any] | None]) -> str:
    """What is wrong, or nothing."""
    if want == got:
        return ""
    wide = [run for run in noisy if run and run[1] == want[1] and {run[0], want[0]} in _WIDER]
    noisy = [run for run in noisy if run not in wide]
    loose = [run for run in noisy if run is None or run[:2] != want[:2]]
    if want[:2] != got[:2]:
        return "" if loose else f"{got[0]}{got[1]}, not {want[0]}{want[1]}"
    if loose:
        return ""
    a, b, runs = array(want), array(got), [array(run) for run in (*noisy, *wide) if run is not None]
    if want[0] not in _RELATIVE:
        wrong = a != b
        return "" if any((run != a).any() for run in runs) else _first(a, b, wrong)
    with np.errstate(all="ignore"):
        x, y, others = a.astype(np.float64), b.astype(np.float64), [run.astype(np.float64) for run in runs]
        relative = _RELATIVE[want[0]]
        largest = np.max(np.abs(x[np.isfinite(x)]), initial=1.0)
        allowed = np.where(np.isfinite(x), relative * np.abs(x) + relative / 8 * largest, 0.0)
        for run in others:
            off = np.where((run == x) | (np.isnan(run) & np.isnan(x)), 0.0, np.abs(run - x))
            noise = np.max(off[np.isfinite(off)], initial=0.0)
            swing = np.where(np.isfinite(off), _MARGIN * np.maximum(off, noise / 4), np.inf)
            allowed = np.maximum(allowed, swing)
        right = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= allowed) | np.isposinf(allowed)
    return _first(a, b, ~right)


def _first(want: Array, got: Array, wrong: Array) -> str:
    if not np.any(wrong):
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    many = f"{np.count_nonzero(wrong)} of {want.size} differ"
    return f"{many}, first at {list(at)}: {got[at]}, not {want[at]} ({want.dtype})"
