"""Writes benchmarks/short_programs.csv and .md: what programs of seconds cost with tf_stitch.

    python -m tools.short_programs --turns=3

Each turn is three processes, one after the other: without tf_stitch, with a cache that holds the native libraries
alone, and with the cache that this run left. Rows are kept of programs that are not run again (--short_programs)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config, plain_environment
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.machine import commit, describe_cpu, module_path
from tools.short_programs.row import FORMS, NAMES, Row, read, table, written

ROOT = Path(__file__).resolve().parents[2]
_TURNS = flags.DEFINE_integer("turns", 3, "of three processes", lower_bound=1)
_ONLY = flags.DEFINE_list("short_programs", list(NAMES), "programs")
_TIMES = flags.DEFINE_float("longer", 1.0, "how many times as long programs run")
_ROWS = flags.DEFINE_string("short_rows", str(ROOT / "benchmarks" / "short_programs.csv"), "file with the rows")


def run(program: str, turn: int, form: str, cache: Path) -> Row:
    """One process.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    environment = plain_environment() | {"PYTHONPATH": module_path(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3",
                                         "CUDA_VISIBLE_DEVICES": ""}
    module = ["-m", "tools.short_programs.programs", f"--short_program={program}", f"--times={_TIMES.value}"]
    if form != "plain":
        environment |= {"TF_STITCH": "1", "TF_STITCH_CACHE": str(cache)}
        module = ["-m", "tf_stitch", *module]
    command = [sys.executable, *module]
    with tempfile.TemporaryFile("w+") as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=said, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=text[-2000:])
    lines = [line for line in text.splitlines() if line.startswith("[tf_stitch]")]
    row = Row(program, turn, form, round(usage.ru_utime + usage.ru_stime, 3), round(wall, 3), commit(),
              "; ".join(lines))
    print(row, flush=True)
    return row


def turns(program: str) -> Iterator[Row]:
    """All runs of a program, with a cache for each turn."""
    for turn in range(_TURNS.value):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder, "cache")
            for library in (STITCH_OP, GRAPH_HOOK):
                (cache / "native").mkdir(parents=True, exist_ok=True)
                shutil.copy2(build_library(library, load_config().cache_dir), cache / "native")
            for form in FORMS:
                yield run(program, turn, form, cache)


def main(_: Sequence[str]) -> None:
    path = Path(_ROWS.value)
    kept = [row for row in read(path.read_text()) if row.program not in _ONLY.value] if path.exists() else []
    for program in _ONLY.value:
        kept += turns(program)
        path.write_text(written(sorted(kept, key=lambda row: NAMES.index(row.program))))
    path.with_suffix(".md").write_text(page(read(path.read_text())))


def page(rows: Sequence[Row]) -> str:
    """benchmarks/short_programs.md."""
    about = {"commits": ", ".join(sorted({row.commit for row in rows})), **describe_cpu()}
    machine = ", ".join(f"{name} {value}" for name, value in about.items())
    return f"""\
# What programs of seconds cost

Programs of `tools/short_programs/programs.py`, on which nothing was tuned. Seconds are processor time of a whole
process with all that it started, medians over turns (a row of the file is one process). A turn is three processes, one
after the other: TensorFlow alone; tf_stitch with a cache that holds its native libraries alone; with what that left.
Ratios are medians of those in each turn. Other programs ran on the same cores, so seconds on the wall, and to a lesser
degree processor seconds, have their share of noise.

{table(rows)}

Command: `python -m tools.short_programs --turns={_TURNS.value}`. {machine}.
Rows: [short_programs.csv](short_programs.csv).
"""


if __name__ == "__main__":
    app.run(main)
