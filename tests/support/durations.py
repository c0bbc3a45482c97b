"""Seconds of each test file: those on record decide which files begin first; a run ends with its own beside them, and
a whole run fails for a file that takes much more of a processor than it did."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from tests.support import fork_server

RECORD = Path(__file__).parents[1] / "durations.txt"
"""Lines of seconds, processor seconds and a file below tests/, the longest first: what
`tools/test.sh --record-durations` writes after a run with empty caches, which takes the most: of all files, or of those
that it is given. Files of less than LEAST seconds have none; a file whose processor seconds are "-" cannot have grown.
"""
UNKNOWN = "-"
LEAST = 4.0
SHOWN = 10
SHARE, MARGIN = 1.2, 10.0
"""A file has grown if it takes more than this share of its record, and this many processor seconds more."""


@dataclass(frozen=True)
class Spent:
    """Seconds.

    Attributes:
        wall: what passed.
        processor: of the process that ran the tests, and of those that it has waited for.
    """

    wall: float = 0.0
    processor: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall + other.wall, self.processor + other.processor)


class ProcessorClock:
    """Processor seconds of this process, its children and what fork servers ran for it."""

    def __init__(self) -> None:
        self._before = _processor_seconds()

    def lap(self) -> float:
        """Since it was made, or since the last lap."""
        before, self._before = self._before, _processor_seconds()
        return self._before - before


def _processor_seconds() -> float:
    return sum(os.times()[:4]) + fork_server.processor_seconds()


def recorded() -> dict[str, Spent]:
    """By file."""
    rows = (line.split() for line in RECORD.read_text().splitlines())
    return {name: Spent(float(wall), 0.0 if processor == UNKNOWN else float(processor))
            for wall, processor, name in rows}


def record(spent: Mapping[str, Spent], others: Mapping[str, Spent]) -> None:
    """Writes what files took.

    Args:
        others: on record of files that have not run, and of those that have, which keep the fewer seconds: who runs
            some files does so beside other work, whose waits are not theirs. Nothing for a whole run.
    """
    rows = dict(others)
    for name, taken in spent.items():
        wall = min(taken.wall, others[name].wall) if name in others else taken.wall
        rows[name] = Spent(wall, max(taken.processor, 0.1))  # 0 is for unknown
    lines = [_line(name, rows[name]) for name in sorted(rows, key=lambda name: (-rows[name].wall, name))
             if rows[name].wall >= LEAST]
    RECORD.write_text("".join(line + "\n" for line in lines))


def _line(name: str, spent: Spent) -> str:
    return f"{spent.wall:.1f} {f'{spent.processor:.1f}' if spent.processor else UNKNOWN} {name}"


def caches_are_empty(folders: Iterable[Path]) -> bool:
    """Whether nothing is there that tests would else compile, or run in plain TensorFlow."""
    return not any(file.is_file() for folder in folders for file in folder.glob("*"))


def summary(spent: Mapping[str, Spent], before: Mapping[str, Spent]) -> list[str]:
    """Lines for people: the slowest files, and all together, beside the record of the same files.

    Args:
        spent: by files that ran.
    """
    known = sum((before[name] for name in spent if name in before), Spent())
    total = sum(spent.values(), Spent())
    lines = [f"{_pair(total)} of {len(spent)} files on all workers; on record {_pair(known)}"]
    for name in sorted(spent, key=lambda name: -spent[name].wall)[:SHOWN]:
        on_record = _pair(before[name]) if name in before else "nothing"
        lines.append(f"{_pair(spent[name])}, on record {on_record}: {name}")
    return lines


def _pair(spent: Spent) -> str:
    return f"{spent.wall:.0f} s ({spent.processor:.0f} of a processor)"


def not_on_record(spent: Mapping[str, Spent], before: Mapping[str, Spent]) -> list[str]:
    """Lines for the record of files whose processor seconds it lacks.

    Args:
        spent: of a whole run with empty caches.
    """
    return [_line(name, taken) for name, taken in sorted(spent.items(), key=lambda each: -each[1].wall)
            if taken.wall >= LEAST and taken.processor and not before.get(name, Spent()).processor]


def grown(spent: Mapping[str, Spent], before: Mapping[str, Spent]) -> list[str]:
    """What to say of each file that takes much more of a processor than its record, on a machine as fast as this one:
    how fast is the upper quartile of all files' shares of their records, as full caches make many of them small. A
    faster machine is taken for an equal one.

    Args:
        spent: of a whole run.
    """
    known = {name: old for name, old in before.items() if old.processor}
    shares = [spent[name].processor / old.processor for name, old in known.items() if name in spent]
    machine = max(1.0, quantiles(shares)[2]) if len(shares) > 1 else 1.0
    lines = []
    for name, new in spent.items():
        if not known or (name in before and name not in known):
            continue
        old = known.get(name, Spent(0.0, LEAST))
        taken = new.processor / machine
        if taken > old.processor * SHARE and taken > old.processor + MARGIN:
            on_purpose = _line(name, Spent(max(old.wall, new.wall), taken))
            lines.append(f"{name} took {taken:.0f} processor seconds, and {old.processor:.0f} on record: make it "
                         f"faster, or put this line into tests/{RECORD.name}: {on_purpose}")
    return lines
