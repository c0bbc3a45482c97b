"""Writes benchmarks/verdict.md: of ten programs, what the line at exit says and what runs with and without show.

    python -m tools.verdict --rounds=3 --run_seconds=4

Each program first runs with an empty cache, waiting for kernels (TF_STITCH_ASYNC=0), then in rounds, in turns without
and with tf_stitch."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.machine import commit, describe_cpu, module_path
from tools.verdict.row import ALLOWED, NAMES, Row, step_ms, table, within

ROOT = Path(__file__).resolve().parents[2]
_ROUNDS = flags.DEFINE_integer("rounds", 3, "runs of each kind", lower_bound=1)
_RUN_SECONDS = flags.DEFINE_float("run_seconds", 4.0, "how long the steps of a run last")
_JOBS = flags.DEFINE_integer("jobs", 1, "programs at a time", lower_bound=1)
_ONLY = flags.DEFINE_list("only", list(NAMES), "programs")
_OUTPUT = flags.DEFINE_string("verdict_rows", str(ROOT / "benchmarks" / "verdict.jsonl"), "file with the rows")
_AGAIN = flags.DEFINE_bool("page_only", False, "write the page of rows that are there")
_PAGE = ROOT / "benchmarks" / "verdict.md"


def run(program: str, cache: Path | None, cold: bool = False) -> tuple[float, str]:
    """Milliseconds of a step, and the line at exit.

    Args:
        cache: None runs TensorFlow alone.
        cold: kernels are waited for.
    """
    seconds = _RUN_SECONDS.value
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}
    environment |= {"PYTHONPATH": module_path(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tools.verdict.programs", f"--verdict_program={program}",
               f"--step_seconds={seconds}"]
    if cache is not None:
        environment |= {"TF_STITCH": "1", "TF_STITCH_CACHE": str(cache)} | ({"TF_STITCH_ASYNC": "0"} if cold else {})
        command[1:2] = ["-m", "tf_stitch", "-m"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    said = [line for line in done.stderr.splitlines() if line.startswith("[tf_stitch]")]
    return step_ms(done.stdout), said[-1] if said else ""


def measured(program: str) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        native = cache / "native"
        native.mkdir(parents=True)
        for library in (STITCH_OP, GRAPH_HOOK):
            shutil.copy2(build_library(library, load_config().cache_dir), native)
        run(program, cache, cold=True)
        rounds = [(run(program, None), run(program, cache)) for _ in range(_ROUNDS.value)]
    row = Row(program, tuple(before for (before, _), _ in rounds), tuple(now for _, (now, _) in rounds),
              tuple(line for _, (_, line) in rounds))
    print(json.dumps(asdict(row)), flush=True)
    return row


def main(_: Sequence[str]) -> None:
    raw = Path(_OUTPUT.value)
    if not _AGAIN.value:
        head = {"command": f"python -m tools.verdict {shlex.join(_flags())}", "commit": commit(), **describe_cpu()}
        with ThreadPoolExecutor(_JOBS.value) as jobs:
            rows = list(jobs.map(measured, _ONLY.value))
        head["load when it ended"] = round(os.getloadavg()[0], 2)
        raw.write_text("".join(json.dumps(line) + "\n" for line in (head, *map(asdict, rows))))
    head, *lines = map(json.loads, raw.read_text().splitlines())
    _PAGE.write_text(page(head, [Row(**{key: tuple(value) if isinstance(value, list) else value
                                        for key, value in line.items()}) for line in lines]))


def page(head: dict[str, object], rows: Sequence[Row]) -> str:
    """benchmarks/verdict.md."""
    told = [row for row in rows if row.is_told]
    machine = ", ".join(f"{name} {value}" for name, value in head.items() if name != "command")
    return f"""\
# Is the line at exit true?

Programs (`tools/verdict/programs.py`), each in rounds of two runs, without and with tf_stitch. A step is the fastest
quarter of the calls in the last two thirds of a run. "Median" is that of the rounds' ratios; "fastest" is the ratio of
the fastest round of each kind, whose times are in the first columns. "The line says" is the ratio of the two times in
the last line of the last run.

Within {100 * ALLOWED:.0f} % of the median are {within(rows, lambda row: row.runs)} of {len(rows)} lines, \
of the fastest {within(rows, lambda row: row.fastest)}. Rounds that lie farther apart than
{100 * ALLOWED:.0f} % to both sides ("noise") cannot say whether a line is right. Of the {len(told)} programs whose \
rounds agree,
{within(told, lambda row: row.runs)} have a line within {100 * ALLOWED:.0f} % of the median.

{table(rows)}

Command: `{head["command"]}`. {machine}.
Other programs ran on the same cores.
Rows: [verdict.jsonl](verdict.jsonl).
"""


def _flags() -> list[str]:
    return [f"--rounds={_ROUNDS.value}", f"--run_seconds={_RUN_SECONDS.value:g}", f"--jobs={_JOBS.value}"]


if __name__ == "__main__":
    app.run(main)
