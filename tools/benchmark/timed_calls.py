"""How a worker answers that holds a step: it calls it, times it, and says what came out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PIECES = 8
"""Of what is inferred, this many numbers are told."""

LOOKED_AT = 1 << 20
"""Of a result, at most about twice as many numbers."""


@dataclass(frozen=True)
class TimedCalls:
    """
    Attributes:
        step: starts a call; its result.
        wait: until all calls that were started are over, given the last result.
        values: a result as an array of float64, flat.
        peak: memory, for the answer.
        profiled: what the device does in so many calls of a function, per call.
    """

    step: Callable[[], Any]
    wait: Callable[[Any], object]
    values: Callable[[Any], Any]
    peak: Callable[[], dict[str, float]]
    profiled: Callable[[Callable[[], object], int], dict[str, Any]]

    def __call__(self, warm_up: str, calls: str, what: str = "") -> dict[str, Any]:
        """Milliseconds of each of `calls` calls after `warm_up` calls that are not timed, the last result, memory.

        Args:
            what: "profile": what the device does in `calls` calls instead; "losses": what the first calls gave, too.
        """
        begin = time.perf_counter()
        losses, result = [], None
        for _ in range(int(warm_up)):
            result = self.step()
            if what == "losses":
                losses.append(in_pieces(self.values(result)))
            elif not int(calls):  # the profitability check of tf_stitch reads its times when they are there
                self.wait(result)
        self.wait(result)  # timed calls find what calls that nobody waits for have left
        warm = time.perf_counter() - begin
        if what == "profile":
            return self.profiled(lambda: self.wait(self.step()), int(calls))
        begin = time.perf_counter()
        for _ in range(int(calls)):
            result = self.step()
        self.wait(result)
        seconds = time.perf_counter() - begin
        found = {"ms": seconds * 1e3 / max(int(calls), 1), "warm_up_s": warm, "losses": losses,
                 "result": root_mean_square(self.values(result)) if int(calls) else 0.0}
        return found | self.peak()


def looked_at(result: Any) -> Any:
    """Numbers of a NumPy array, flat, in float64."""
    flat = result.ravel()
    return flat[::max(len(flat) // LOOKED_AT, 1)].astype("float64")


def in_pieces(values: Any) -> list[float]:
    """A loss as it is; of more numbers the root mean squares of each eighth, every eighth number in one."""
    return [float(values[0])] if len(values) == 1 else [root_mean_square(values[i::PIECES]) for i in range(PIECES)]


def root_mean_square(values: Any) -> float:
    return float((values**2).mean() ** 0.5) if len(values) else 0.0
