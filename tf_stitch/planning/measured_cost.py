"""Time of a kernel by execution (F6): measured before, kept on disk by structure and device; the model for the rest.

FusionStitching section 4.3 scores a pattern f = sum K(op) + (N-1) phi - K(P). The planner's gain is that sum: times of
single ops and of patterns both include a launch. So a pattern counts as measured only where its ops are, too: a
measurement against a prediction would compare two scales.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tf_stitch.atomic_file import write_atomically
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.text_format import structural_key
from tf_stitch.planning.cost_model import TimeOf
from tf_stitch.planning.stitch_plan import Pattern, StitchPlan, make_pattern

VERSION = 1
"""Of the keys: measurements of kernels that are generated differently now are of no use."""
COMPLEX_NODES = 4
"""Nodes from which a pattern with a reduction is worth measuring; the model is right enough for the others."""


@dataclass(frozen=True)
class MeasuredCost:
    """Measured microseconds of a pattern where it and each of its ops alone were measured, else the model's.

    Attributes:
        call_us: of a call, which the times lack: CPU kernels are timed in a loop, where a call costs next to nothing.
    """

    model: TimeOf
    times: MeasuredTimes
    aligned: bool = True
    call_us: float = 0.0

    def __call__(self, pattern: Pattern) -> float | None:
        known = self._known(pattern)
        alone = (Pattern((node,), (node,), pattern.free) for node in pattern.nodes)
        if known is None or (len(pattern.nodes) > 1 and any(self._known(op) is None for op in alone)):
            return self.model(pattern)
        return known + self.call_us

    def _known(self, pattern: Pattern) -> float | None:
        return self.times.get(measurement_key(pattern, self.aligned))


def measurement_key(pattern: Pattern, aligned: bool) -> str:
    """Names a pattern's structure and shapes, whatever its nodes are called."""
    text = f"{VERSION} {aligned}\n{structural_key(pattern.nodes, pattern.outputs)}"
    return sha256(text.encode()).hexdigest()[:32]


class MeasuredTimes:
    """Microseconds by key: one file a device, which processes share. Thread-safe.

    A file that cannot be read counts as empty; `problem` then says why.
    """

    def __init__(self, file: Path) -> None:
        self.problem: str | None = None
        self._file = file
        self._lock = threading.Lock()
        self._times = self._read()

    def __len__(self) -> int:
        return len(self._times)

    def get(self, key: str) -> float | None:
        return self._times.get(key)

    def digest(self) -> str:
        """Hex sha256 of all times: plans depend on them."""
        return sha256(json.dumps(self._times, sort_keys=True).encode()).hexdigest()

    def add(self, times: Mapping[str, float]) -> None:
        """Keeps times for later processes too; what others wrote meanwhile stays.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            self._times = {**self._read(), **self._times, **times}
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(dict(sorted(self._times.items())), indent=0).encode())

    def _read(self) -> dict[str, float]:
        try:
            document = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self.problem = f"{self._file}: {error}; measured times are made anew"
            return {}
        if not isinstance(document, dict) or not all(map(_is_time, document.values())):
            self.problem = f"{self._file} holds no measured times; they are made anew"
            return {}
        return document


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0


def patterns_to_measure(plan: StitchPlan, users: dict[Node, list[Node]], wanted: frozenset[Node]
                        ) -> list[tuple[Pattern, list[Pattern]]]:
    """Complex patterns of a plan, the largest first, each with its parts: its ops alone, and the two halves on either
    side of each of its reductions' results."""
    found = []
    for pattern in sorted(plan.patterns, key=lambda p: len(p.nodes), reverse=True):
        reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
        if len(pattern.nodes) < COMPLEX_NODES or not reductions:
            continue

        def part(nodes: Sequence[Node]) -> Pattern:
            return make_pattern(nodes, users, wanted, plan.free)

        position = {n: i for i, n in enumerate(pattern.nodes)}
        cuts = sorted({position[n] + 1 for n in reductions} - {len(pattern.nodes)})
        halves = [part(side) for cut in cuts for side in (pattern.nodes[:cut], pattern.nodes[cut:])]
        found.append((pattern, [part((n,)) for n in pattern.nodes] + [h for h in halves if len(h.nodes) > 1]))
    return found
