"""What the training scripts print: a line per step, and times at the end."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

WARM_UP = 5
"""Steps that are left out of the steady time: tracing, compilation, memory."""


def parser(description: str, batch: int) -> argparse.ArgumentParser:
    """The arguments that all scripts have."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--steps", type=int, default=60, help="training steps")
    arguments.add_argument("--batch", type=int, default=batch, help="examples per step")
    arguments.add_argument("--seed", type=int, default=1, help="of weights, dropout and samples")
    arguments.add_argument("--out", type=Path, help="write losses and times there, as JSON")
    return arguments


class StepLog:
    """Collects losses and times.

    Attributes:
        losses: one per step.
        seconds: of each step; the first holds tracing and compilation.
    """

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self._extra: dict[str, Any] = {}
        self._start = 0.0

    def begin(self) -> None:
        """A step starts now."""
        self._start = time.perf_counter()

    def end(self, loss: float) -> None:
        """The step that began has ended with `loss`."""
        self.seconds.append(time.perf_counter() - self._start)
        self.losses.append(float(loss))
        print(f"step {len(self.losses)} loss {self.losses[-1]!r}", flush=True)

    def note(self, name: str, value: Any) -> None:
        """One more result."""
        self._extra[name] = value
        print(f"{name} {value!r}", flush=True)

    def finish(self, out: Path | None) -> None:
        """Prints the times and writes everything to `out`."""
        self.note("first_step_ms", round(self.seconds[0] * 1e3, 3))
        self.note("steady_step_ms", round(median_ms(self.seconds), 3))
        if out is not None:
            out.write_text(json.dumps({"losses": self.losses, "seconds": self.seconds, **self._extra}, indent=1) + "\n")


def median_ms(seconds: list[float]) -> float:
    """Median in milliseconds, without the warm-up where there are steps enough."""
    return statistics.median(seconds[WARM_UP:] or seconds[1:] or seconds) * 1e3
