"""How long a device works in a call: the time in which it runs a kernel or a copy, on whatever streams."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of what intervals (begin, end) cover together."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        if end > reached:
            total += end - max(begin, reached)
            reached = end
    return total


def device_time(call: Callable[[], object], calls: int) -> dict[str, Any]:
    """Under JAX's profiler, per call: "device_us", and "kernels" as [name, count, microseconds], the longest first."""
    import jax

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(calls):
                call()
        files = [*Path(folder).glob("**/*.xplane.pb")]
        planes = [plane for file in files for plane in jax.profiler.ProfileData.from_file(str(file)).planes]
    events = [(event.name, event.start_ns / 1e3, event.duration_ns / 1e3) for plane in planes
              if plane.name.startswith("/device:GPU") for line in plane.lines if line.name.startswith("Stream")
              for event in line.events]  # fmt: skip
    return summed(events, calls)


def summed(events: Iterable[tuple[str, float, float]], calls: int) -> dict[str, Any]:
    """Of events (name, begin, length) in microseconds: as `device_time`."""
    events = [*events]
    counts: dict[str, list[float]] = {}
    for name, _, length in events:
        found = counts.setdefault(name, [0, 0.0])
        found[0] += 1
        found[1] += length
    kernels = sorted(([name, count / calls, us / calls] for name, (count, us) in counts.items()), key=lambda k: -k[2])
    return {"device_us": covered((begin, begin + length) for _, begin, length in events) / calls, "kernels": kernels}
