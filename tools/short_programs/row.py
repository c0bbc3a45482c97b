"""What runs of one program took, and the table of all programs."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

NAMES = ("session", "custom_loop", "reinforcement", "keras_fit", "retraced_lengths", "trials", "graph_attention",
         "requests")
"""Of the programs in programs.py, which imports TensorFlow."""
FORMS = ("plain", "cold", "warm")


@dataclass(frozen=True)
class Row:
    """A run of a program.

    Attributes:
        turn: runs of one turn follow each other.
        form: one of FORMS: without tf_stitch, with a cache of native libraries alone, with what that run left.
        processor_s: seconds of processor time of the process and all that it started.
        wall_s: seconds on the wall.
        commit: of the tree that was run.
        said: what tf_stitch said.
    """

    program: str
    turn: int
    form: str
    processor_s: float
    wall_s: float
    commit: str
    said: str = ""


def written(rows: Iterable[Row]) -> str:
    """As CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, rows))
    return text.getvalue()


def read(text: str) -> list[Row]:
    """The rows of a CSV file."""
    return [Row(line["program"], int(line["turn"]), line["form"], float(line["processor_s"]), float(line["wall_s"]),
                line["commit"], line["said"]) for line in csv.DictReader(io.StringIO(text))]


def seconds(rows: Sequence[Row], program: str, form: str, wall: bool = False) -> float:
    """Median over the turns."""
    return statistics.median(row.wall_s if wall else row.processor_s for row in rows
                             if (row.program, row.form) == (program, form))


def ratio(rows: Sequence[Row], program: str, form: str, wall: bool = False) -> float:
    """Median over the turns of a form's seconds by those of the plain run in the same turn."""
    by_turn: dict[int, dict[str, float]] = {}
    for row in rows:
        if row.program == program:
            by_turn.setdefault(row.turn, {})[row.form] = row.wall_s if wall else row.processor_s
    return statistics.median(turn[form] / turn["plain"] for turn in by_turn.values())


def table(rows: Sequence[Row]) -> str:
    """As Markdown: a line for each program, and the geometric means."""
    lines = ["| program | plain, s | cold, s | warm, s | cold / plain | warm / plain | wall, cold / plain |",
             f"|{' --- |' * 7}"]
    programs = list(dict.fromkeys(row.program for row in rows))
    for program in programs:
        times = (f"{seconds(rows, program, form):.1f}" for form in FORMS)
        ratios = (ratio(rows, program, "cold"), ratio(rows, program, "warm"), ratio(rows, program, "cold", wall=True))
        lines.append(f"| {program} | {' | '.join(times)} | {' | '.join(f'{one:.2f}' for one in ratios)} |")
    means = (math.exp(statistics.fmean(math.log(ratio(rows, program, *of)) for program in programs))
             for of in (("cold",), ("warm",), ("cold", True)))
    lines.append(f"| geometric mean | | | | {' | '.join(f'{one:.2f}' for one in means)} |")
    return "\n".join(lines)
