"""Writes benchmarks/verdict.md: of ten programs, what the line at exit says and what runs with and without show.

    python -m tools.verdict --rounds=3 --run_seconds=4

Each program first runs with an empty cache, waiting for kernels (TF_STITCH_ASYNC=0), then in rounds, in turns without
and with tf_stitch."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.machine import describe_cpu, module_path
from tools.verdict.row import ALLOWED, NAMES, Row, step_ms, table

ROOT = Path(__file__).resolve().parents[2]
_ROUNDS = flags.DEFINE_integer("rounds", 3, "runs of each kind", lower_bound=1)
_RUN_SECONDS = flags.DEFINE_float("run_seconds", 4.0, "how long the steps of a run last")
_JOBS = flags.DEFINE_integer("jobs", 1, "programs at a time", lower_bound=1)
_ONLY = flags.DEFINE_list("only", list(NAMES), "programs")
_OUTPUT = flags.DEFINE_string("output", str(ROOT / "benchmarks" / "verdict.md"), "file that is written")


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
    print(row, flush=True)
    return row


def main(_: Sequence[str]) -> None:
    load = os.getloadavg()
    with ThreadPoolExecutor(_JOBS.value) as jobs:
        rows = list(jobs.map(measured, _ONLY.value))
    machine = ", ".join(f"{name} {value}" for name, value in describe_cpu().items() if name != "load")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.strip()
    off = [row for row in rows if row.off is None or abs(row.off) > ALLOWED]
    Path(_OUTPUT.value).write_text(f"""\
# Is the line at exit true?

Ten programs (`tools/verdict/programs.py`). "Runs show" is the median, over rounds, of the ratio of two runs, without
and with tf_stitch, in turns; a step is the fastest quarter of the calls in the last two thirds of a run of
{_RUN_SECONDS.value:g} s. "The line says" is the ratio of the two times in the last line of the last run.
{len(rows) - len(off)} of {len(rows)} are within {100 * ALLOWED:.0f} %.

{table(rows)}

Command: `python -m tools.verdict {shlex.join(_flags())}`, commit {commit}.
{machine}. Load (1, 5, 15 minutes) {load[0]:.1f}, {load[1]:.1f}, {load[2]:.1f} when it began,
{", ".join(f"{value:.1f}" for value in os.getloadavg())} when it ended: other programs ran on the same cores.
""")


def _flags() -> list[str]:
    return [f"--rounds={_ROUNDS.value}", f"--run_seconds={_RUN_SECONDS.value:g}", f"--jobs={_JOBS.value}"]


if __name__ == "__main__":
    app.run(main)
