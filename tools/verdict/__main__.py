"""Writes benchmarks/verdict.md: of ten programs, what the line at exit says and what runs with and without show.

    python -m tools.verdict --rounds=3

Each program first runs with an empty cache, waiting for kernels (TF_STITCH_ASYNC=0). A round is two new processes,
without and with tf_stitch, which take turns: one waits while the other runs steps. A machine that gets slower is slower
for both, and each turn has a ratio. As root, steps run by a real-time policy (SCHED_RR), so that other programs hardly
disturb them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.machine import commit, describe_cpu
from tools.verdict.row import ALLOWED, NAMES, Round, Row, row_of, table
from tools.verdict.run import ROOT, Run

_ROUNDS = flags.DEFINE_integer("rounds", 3, "of two processes", lower_bound=1)
_TURNS = flags.DEFINE_integer("verdict_turns", 12, "of each round", lower_bound=1)
_TURN_SECONDS = flags.DEFINE_float("turn_seconds", 0.25, "how long the steps of one process last in a turn")
_ONLY = flags.DEFINE_list("only", list(NAMES), "programs")
_OUTPUT = flags.DEFINE_string("verdict_rows", str(ROOT / "benchmarks" / "verdict.jsonl"), "file with the rows")
_AGAIN = flags.DEFINE_bool("page_only", False, "write the page of rows that are there")
_PAGE = ROOT / "benchmarks" / "verdict.md"
_WARMING_SECONDS = 1.0
"""Of steps before the first turn."""


def measured(program: str) -> Row:
    """All rounds of a program, with a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        native = cache / "native"
        native.mkdir(parents=True)
        for library in (STITCH_OP, GRAPH_HOOK):
            shutil.copy2(build_library(library, load_config().cache_dir), native)
        with Run(program, cache, wait=True) as first:
            first.steps(_WARMING_SECONDS)
            first.end()
        row = Row(program, tuple(one_round(program, cache) for _ in range(_ROUNDS.value)))
    print(json.dumps(asdict(row)), flush=True)
    return row


def one_round(program: str, cache: Path) -> Round:
    with Run(program, None) as without, Run(program, cache) as stitched:
        times: dict[Run, list[float]] = {without: [], stitched: []}
        for run in times:
            run.steps(_WARMING_SECONDS)
        for turn in range(_TURNS.value):
            for run in (without, stitched) if turn % 2 else (stitched, without):
                times[run].append(run.steps(_TURN_SECONDS.value))
        without.end()
        return Round(tuple(times[without]), tuple(times[stitched]), stitched.end())


def main(_: Sequence[str]) -> None:
    raw = Path(_OUTPUT.value)
    if not _AGAIN.value:
        head = {"command": f"python -m tools.verdict {shlex.join(_flags())}", "commit": commit(), **describe_cpu(),
                "load when it began": round(os.getloadavg()[0], 2)}
        rows = [measured(program) for program in _ONLY.value]
        head["load when it ended"] = round(os.getloadavg()[0], 2)
        raw.write_text("".join(json.dumps(line) + "\n" for line in (head, *map(asdict, rows))))
    head, *lines = map(json.loads, raw.read_text().splitlines())
    _PAGE.write_text(page(head, list(map(row_of, lines))))


def page(head: dict[str, object], rows: Sequence[Row]) -> str:
    """benchmarks/verdict.md."""
    rounds = [one for row in rows for one in row.rounds]
    spread = statistics.median(one.late.spread[1] / one.late.spread[0] for one in rounds)
    most = [row for row in rows if row.near * 2 > len(row.rounds)]
    machine = ", ".join(f"{name} {value}" for name, value in head.items() if name != "command")
    return f"""\
# Is the line at exit true?

Ten programs (`tools/verdict/programs.py`) on which nothing was tuned. A round is two processes, without and with
tf_stitch, which take turns on the machine. A turn's time is the lower quartile of its steps, and "median" is that of
the ratios of the turns in the second half: the line at exit is about what runs at the end, and before, a region may
have given way to TensorFlow's ops. "Their ratios" leaves out a tenth of these turns at each end. The ratio that the
line says is that of the two times it names.

**Within {100 * ALLOWED:.0f} % of the median are {sum(row.near for row in rows)} of {len(rounds)} lines**, and \
{sum(row.right for row in rows)} are within {100 * ALLOWED:.0f} % or among the turns' ratios ("in the spread").
Most lines of {len(most)} of {len(rows)} programs are within {100 * ALLOWED:.0f} %. By the ratios of both halves \
{sum(one.is_near for one in rounds)} lines are.

The reference itself varies: in the median round the highest of these ratios is {spread:.2f} times the lowest.

{table(rows)}

Command: `{head["command"]}`. {machine}.
Other programs ran on the same cores; steps ran before them (SCHED_RR).
Rows: [verdict.jsonl](verdict.jsonl).
"""


def _flags() -> list[str]:
    return [f"--rounds={_ROUNDS.value}", f"--verdict_turns={_TURNS.value}", f"--turn_seconds={_TURN_SECONDS.value:g}"]


if __name__ == "__main__":
    app.run(main)
