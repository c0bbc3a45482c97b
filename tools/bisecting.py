"""What tools/bisect.py does: a search over TF_STITCH_FUEL, which stitches the first regions of a process alone."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absl import app, flags

_TOLERANCE = flags.DEFINE_float("tolerance", 1e-3, "relative difference that does not count", lower_bound=0)
_TIMEOUT = flags.DEFINE_float("timeout", None, "seconds after which a run counts as failed")

_STEP = re.compile(r"\bstep\s+(\d+)\b.*?\bloss[\s:=]+(\S+)")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)\b")
_MOST_REGIONS = 1 << 20
_TAIL = 5
ON = {"TF_STITCH": "1", "TF_STITCH_GUARD": "0"}
"""A region that gives way to TensorFlow's ops would hide what its kernels do."""


class BisectError(Exception):
    """There is nothing to search, or no way to; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """One run of the command.

    Attributes:
        values: what it printed, by name ("step 3", or a place in the last line).
        regions: each region's nodes with their ops, in the order they were stitched; None: there is no report.
        failure: what it said when it failed, or None.
    """

    values: dict[str, float]
    regions: list[dict[str, str]] | None = None
    failure: str | None = None


Run = Callable[[int | None], Outcome]
"""Fuel -> outcome; None: as many regions as there are."""


@dataclass(frozen=True)
class Culprit:
    """The first region with which the result differs: `fuel` counts it. `nodes` is None where there is no report."""

    fuel: int
    nodes: dict[str, str] | None
    how: str


def find_culprit(plain: Outcome, run: Run, tolerance: float, say: Callable[[str], object] = print) -> Culprit:
    """Searches with about log2(regions) runs.

    Args:
        plain: the command without tf_stitch.

    Raises:
        BisectError: the results agree, or differ with nothing stitched.
    """
    if plain.failure is not None:
        raise BisectError(f"the command fails without tf_stitch: {plain.failure}")
    if not plain.values:
        raise BisectError('the command prints no number: neither "step N loss X" nor in its last line')
    everything = run(None)
    how = difference(plain, everything, tolerance)
    if how is None:
        raise BisectError("stitched and plain results agree")
    total = None if everything.regions is None else len(everything.regions)
    say(f"stitched ({'?' if total is None else total} regions): {how}")
    nothing = difference(plain, run(0), tolerance)
    if nothing is not None:
        raise BisectError(f"the result differs with no region stitched, too ({nothing}): the script is not "
                          "deterministic, or tf_stitch's activation matters to it")  # fmt: skip
    seen = {} if total is None else {total: (everything, how)}

    def differs(fuel: int) -> bool:
        if fuel not in seen:
            outcome = run(fuel)
            how = difference(plain, outcome, tolerance)
            say(f"first {fuel}: {how or 'same'}")
            if how is None:
                return False
            seen[fuel] = outcome, how
        return True

    fuel = first_true(differs, total)
    outcome, how = seen[fuel]
    nodes = outcome.regions[fuel - 1] if outcome.regions is not None and len(outcome.regions) >= fuel else None
    return Culprit(fuel, nodes, how)


def first_true(test: Callable[[int], bool], last: int | None) -> int:
    """The least number from 1 at which `test` holds, given that it holds from there on.

    Args:
        last: a number at which it holds, or None to look for one.

    Raises:
        BisectError: it holds nowhere.
    """
    low, high = 0, last  # it does not hold at low, and holds at high
    if high is None:
        high = 1
        while not test(high):
            low, high = high, 2 * high
            if high > _MOST_REGIONS:
                raise BisectError("the result differs only when the number of regions is not limited")
    while high - low > 1:
        middle = (low + high) // 2
        if test(middle):
            high = middle
        else:
            low = middle
    return high


def difference(plain: Outcome, other: Outcome, tolerance: float) -> str | None:
    """How a run differs from the plain one in words, None if it does not."""
    if other.failure is not None:
        return f"fails: {other.failure}"
    for name, value in plain.values.items():
        if name not in other.values:
            return f"prints nothing for {name}"
        mine = other.values[name]
        if mine == value or (math.isnan(mine) and math.isnan(value)):
            continue
        relative = abs(mine - value) / max(abs(mine), abs(value))
        if not relative <= tolerance:
            return f"{name}: {mine:.8g} in place of {value:.8g}"
    return None


def printed_values(text: str) -> dict[str, float]:
    """Losses by step, else the numbers of the last line."""
    steps = {f"step {step}": number for step, word in _STEP.findall(text) if (number := _number(word)) is not None}
    if steps:
        return steps
    lines = text.strip().splitlines()
    return {f"number {i + 1}": float(word) for i, word in enumerate(_NUMBER.findall(lines[-1] if lines else ""))}


def _number(word: str) -> float | None:
    try:
        return float(word.rstrip(",;)"))
    except ValueError:
        return None


def execute(command: Sequence[str], variables: dict[str, str]) -> Outcome:
    """Runs the command, with `variables` in place of its TF_STITCH, fuel and report."""
    with tempfile.TemporaryDirectory() as folder:
        ours = ("TF_STITCH", "TF_STITCH_FUEL", "TF_STITCH_REPORT")
        environment = {k: v for k, v in os.environ.items() if k not in ours} | variables
        if variables.get("TF_STITCH") == "1":
            environment["TF_STITCH_REPORT"] = folder
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT.value)
        except subprocess.TimeoutExpired:
            return Outcome({}, failure=f"took longer than {_TIMEOUT.value:g} s")
        except OSError as error:
            raise BisectError(f"{command[0]} cannot be run: {error}") from None
        report = Path(folder) / "report.json"
        regions = _regions(json.loads(report.read_text())) if report.exists() else None
    if done.returncode:
        said = " / ".join(done.stderr.strip().splitlines()[-_TAIL:])
        return Outcome({}, regions, f"exit status {done.returncode}: {said}")
    return Outcome(printed_values(done.stdout), regions)


def _regions(report: dict[str, Any]) -> list[dict[str, str]]:
    return [region["nodes"] for region in sorted(report["regions"], key=lambda region: region["id"])]


def _verdict(culprit: Culprit, command: Sequence[str]) -> Iterator[str]:
    line = shlex.join(command)
    yield f"\nregion {culprit.fuel - 1} is the first that makes a difference: {culprit.how}"
    if culprit.nodes is None:
        yield "the run left no report that names its nodes; TF_STITCH_DUMP_DIR shows them"
    else:
        yield f"its {len(culprit.nodes)} nodes:"
        yield from (f"  {name} ({op})" for name, op in culprit.nodes.items())
    yield f"with it:    TF_STITCH=1 TF_STITCH_FUEL={culprit.fuel} {line}"
    yield f"without it: TF_STITCH=1 TF_STITCH_FUEL={culprit.fuel - 1} {line}"
    yield f"its stages: TF_STITCH=1 TF_STITCH_FUEL={culprit.fuel} TF_STITCH_DUMP_DIR=dump {line}"
    yield f"            then see dump/region_{culprit.fuel - 1}_*"


def main(argv: Sequence[str]) -> None:
    """Raises SystemExit where there is nothing to find."""
    command = list(argv[1:])
    if not command:
        raise app.UsageError("a command, please, after --")

    def run(fuel: int | None) -> Outcome:
        outcome = execute(command, ON | ({} if fuel is None else {"TF_STITCH_FUEL": str(fuel)}))
        if outcome.failure is None and outcome.regions is None:
            raise BisectError("tf_stitch was not active in the command: install it into that Python, or run "
                              "python -m tf_stitch script.py")  # fmt: skip
        return outcome

    try:
        plain = execute(command, {"TF_STITCH": "0"})
        print(f"plain: {len(plain.values)} values to compare")
        culprit = find_culprit(plain, run, _TOLERANCE.value)
    except BisectError as error:
        sys.exit(f"bisect: {error}")
    print("\n".join(_verdict(culprit, command)))
