"""Runs other people's test suites plain and stitched, and lists the tests whose outcomes differ.

    pip download --no-deps --no-binary :all: keras==3.15.1 && tar xf keras-3.15.1.tar.gz
    python -m tools.other_tests --suite=keras-3.15.1 --state=/tmp/keras 'keras/src/layers/**/*_test.py'
    python -m tools.other_tests --suite=keras-3.15.1 --state=/tmp/keras --graph_ops keras/src/ops/linalg_test.py

Some files at a time run in one process, once in each mode; what the state folder has is not run again. A test that
differs is run once more in both modes, alone. The exit code is 1 if one differs then.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark.raw_rows import command_line
from tools.other_tests.runs import MODES, Outcome, run_files

_SUITE = flags.DEFINE_string("suite", None, "root of the suite's source tree", required=True)
_STATE = flags.DEFINE_string("state", None, "folder of outcomes", required=True)
_STITCHED = [mode for mode in MODES if mode != "plain"]
_MODES = flags.DEFINE_multi_enum("modes", _STITCHED, _STITCHED, "ways to stitch")
_SECONDS = flags.DEFINE_float("seconds", 120, "that one test may take")
_BATCH = flags.DEFINE_integer("batch", 10, "files to a process", lower_bound=1)
_JOBS = flags.DEFINE_integer("jobs", 1, "files at a time", lower_bound=1)
_GRAPH_OPS = flags.DEFINE_bool("graph_ops", False, "in each mode, make a graph of each op that a test of Keras calls "
                               "eagerly")
_ONLY = flags.DEFINE_string("only", None, "pytest's expression for the tests to run; such a run needs a --state of "
                            "its own")
_OUT = flags.DEFINE_string("out", None, "Markdown file for the table and the tests that differ")

Outcomes = dict[str, Outcome]


def main(arguments: Sequence[str]) -> int:
    suite, state = Path(_SUITE.value).resolve(), Path(_STATE.value).resolve()
    state = state / "graph_ops" if _GRAPH_OPS.value else state
    files = sorted({str(p.relative_to(suite)) for glob in arguments[1:] for p in suite.glob(glob)})
    if not files:
        raise app.UsageError(f"no test file in {suite} for {arguments[1:]}")
    with concurrent.futures.ThreadPoolExecutor(_JOBS.value) as pool:
        batches = [files[i:i + _BATCH.value] for i in range(0, len(files), _BATCH.value)]
        runs = {file: run for found in pool.map(lambda batch: _modes(suite, batch, state), batches)
                for file, run in found.items()}  # fmt: skip
    lines = ["| files | mode | passed | failed | skipped | differ |", "| --- | --- | --- | --- | --- | --- |"]
    differing: list[tuple[str, str, str]] = []
    for mode in ("plain", *_MODES.value):
        counts = Counter(o.outcome for run in runs.values() for o in run[mode].values())
        again = [(file, mode, test) for file in files for test in _differing(runs[file], mode)
                 if _still(suite, state, mode, test)]  # fmt: skip
        lines.append(f"| {len(files)} | {mode} | {counts['passed']} | "
                     f"{counts['failed'] + counts['ended the process']} | {counts['skipped']} | {len(again)} |")
        differing += again
    print("\n".join(lines))
    if _OUT.value:
        found = [f"- {mode}: `{test}`" for _, mode, test in differing]
        page = ["# Other people's tests, plain and stitched", "", *lines, "", f"`{command_line(sys.argv)}`", "",
                "Tests whose outcome differs, alone too:", "", *(found or ["none"])]  # fmt: skip
        Path(_OUT.value).write_text("\n".join(page) + "\n")
    for file, mode, test in differing:
        plain, other = runs[file]["plain"].get(test), runs[file][mode].get(test)
        facts = {"mode": mode, "test": test, "plain": plain and plain.outcome, "stitched": other and other.outcome,
                 "said": other and other.said[-900:]}  # fmt: skip
        print(json.dumps(facts, indent=1))
    return 1 if differing else 0


def _modes(suite: Path, files: Sequence[str], state: Path) -> dict[str, dict[str, Outcomes]]:
    """File -> mode -> test -> outcome."""
    found: dict[str, dict[str, Outcomes]] = {file: {} for file in files}
    for mode in ("plain", *_MODES.value):
        print(f"{mode}: {files[0]} and {len(files) - 1} more", file=sys.stderr, flush=True)
        for file, outcomes in _run(suite, files, mode, state).items():
            found[file][mode] = outcomes
    return found


def _run(suite: Path, files: Sequence[str], mode: str, state: Path) -> dict[str, Outcomes]:
    options = ["-p", "tools.other_tests.graph_ops"] if _GRAPH_OPS.value else []
    options += ["-k", _ONLY.value] if _ONLY.value else []
    return run_files(suite, files, mode, state, _SECONDS.value, options)


def _differing(run: dict[str, Outcomes], mode: str) -> Iterator[str]:
    for test in sorted(run["plain"].keys() | run[mode].keys()):
        plain, other = run["plain"].get(test), run[mode].get(test)
        if (plain and plain.outcome) != (other and other.outcome):
            yield test


def _still(suite: Path, state: Path, mode: str, test: str) -> bool:
    """Whether a test differs when it runs alone."""
    alone = state / "alone" / hashlib.sha256(test.encode()).hexdigest()[:16]
    plain, other = (_run(suite, [test], m, alone)[test] for m in ("plain", mode))
    return {t: o.outcome for t, o in plain.items()} != {t: o.outcome for t, o in other.items()}


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
