"""`tf_stitch bisect`: finds the first region, and in it the first pattern, that makes a script's result differ from
plain TensorFlow's.

  tf_stitch bisect -- python train.py --steps 20
  tf_stitch bisect --tolerance=1e-5 -- python -m tf_stitch train.py

Compared are the losses of lines like "step 3 loss 0.25", else the numbers of the last line. The command runs about as
often as the numbers of regions and of patterns have binary digits. It is a search over TF_STITCH_FUEL, which stitches
the first regions of a process alone, and of the region after them the first patterns.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absl import flags

from tf_stitch import child_process
from tf_stitch.cli.commands import parse, wrong
from tf_stitch.config import environment_with
from tf_stitch.messages import counted

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
        patterns: the nodes of each region's patterns.
        failure: what it said when it failed, or None.
        messages: lines of stderr that tf_stitch wrote.
    """

    values: dict[str, float]
    regions: list[dict[str, str]] | None = None
    patterns: list[list[list[str]]] | None = None
    failure: str | None = None
    messages: tuple[str, ...] = ()


Run = Callable[[str | None], Outcome]
"""Value of TF_STITCH_FUEL -> outcome; None: everything is stitched."""


@dataclass(frozen=True)
class Culprit:
    """The first region with which the result differs.

    Attributes:
        nodes: of the region with their ops; None where no report tells.
        pattern: number of its first pattern with which the result differs; None: it differs with an op a kernel.
        pattern_nodes: of that pattern.
        how: the difference in words.
    """

    region: int
    nodes: dict[str, str] | None
    pattern: int | None
    pattern_nodes: list[str]
    how: str


class _Search:
    """Runs with different fuel, each once; a difference is said as it is found."""

    def __init__(self, plain: Outcome, run: Run, tolerance: float, say: Callable[[str], object]) -> None:
        self._plain, self._run, self._tolerance, self._say = plain, run, tolerance, say
        self._seen: dict[str, tuple[Outcome, str | None]] = {}

    def outcome(self, fuel: str | None, title: str) -> tuple[Outcome, str | None]:
        """What a run printed, and how it differs from the plain one."""
        key = fuel or ""
        if key not in self._seen:
            outcome = self._run(fuel)
            how = difference(self._plain, outcome, self._tolerance)
            self._seen[key] = outcome, how
            if fuel is None and outcome.regions is not None:
                self._seen[f"{len(outcome.regions)}r"] = outcome, how
            self._say(f"{title}: {how or 'same'}")
        return self._seen[key]

    def region(self) -> int:
        """The first that makes a difference."""
        everything, how = self.outcome(None, "everything stitched")
        if how is None:
            raise BisectError("stitched and plain results agree")
        _, how = self.outcome("0r", "nothing stitched")
        if how is not None:
            raise BisectError(f"the result differs with no region stitched, too ({how}): the script is not "
                              "deterministic, or tf_stitch's activation matters to it")  # fmt: skip
        total = None if everything.regions is None else len(everything.regions)
        return first_true(lambda n: self.outcome(f"{n}r", f"first {counted(n, 'region')}")[1] is not None, total) - 1

    def pattern(self, region: int, count: int) -> int | None:
        """The first of a region's `count` that makes a difference, None if none is needed for it."""
        def differs(kept: int) -> bool:
            title = f"{kept} of {count} patterns of region {region}"
            return kept == count or self.outcome(f"{region}.{kept}", title)[1] is not None

        if not count or self.outcome(f"{region}.0", f"no pattern of region {region}, each op a kernel")[1] is not None:
            return None
        return first_true(differs, count) - 1


def find_culprit(plain: Outcome, run: Run, tolerance: float, say: Callable[[str], object] = print) -> Culprit:
    """Searches with about log2(regions) + log2(patterns of the region) runs.

    Args:
        plain: the command without tf_stitch.

    Raises:
        BisectError: the results agree, or differ with nothing stitched.
    """
    if plain.failure is not None:
        raise BisectError(f"the command fails without tf_stitch: {plain.failure}")
    if not plain.values:
        raise BisectError('the command prints no number: neither "step N loss X" nor in its last line')
    search = _Search(plain, run, tolerance, say)
    region = search.region()
    outcome, how = search.outcome(f"{region + 1}r", f"first {counted(region + 1, 'region')}")
    nodes = outcome.regions[region] if outcome.regions is not None and len(outcome.regions) > region else None
    patterns = outcome.patterns[region] if outcome.patterns is not None and len(outcome.patterns) > region else []
    pattern = search.pattern(region, len(patterns))
    return Culprit(region, nodes, pattern, [] if pattern is None else patterns[pattern], how or "")


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


def execute(command: Sequence[str], variables: dict[str, str], timeout: float | None = None,
            report_dir: Path | None = None) -> Outcome:
    """Runs the command, with `variables` in place of its TF_STITCH, fuel and report.

    Args:
        timeout: seconds after which it counts as failed.
        report_dir: an empty folder that keeps the report; None: nobody else reads it.

    Raises:
        BisectError: it cannot be run.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = str(report_dir or temporary)
        environment = environment_with(variables)
        if variables.get("TF_STITCH") == "1":
            environment["TF_STITCH_REPORT"] = folder
        try:
            done = child_process.run(command, timeout, environment, Path.cwd())
        except subprocess.TimeoutExpired:
            return Outcome({}, failure=f"took longer than {timeout:g} s")
        except OSError as error:
            raise BisectError(f"{command[0]} cannot be run: {error}") from None
        report = Path(folder) / "report.json"
        regions, patterns = _regions(json.loads(report.read_text())) if report.exists() else (None, None)
    lines = done.stderr.strip().splitlines()
    messages = tuple(line for line in lines if line.startswith("[tf_stitch]"))
    if done.returncode:
        said = " / ".join(lines[-_TAIL:])
        return Outcome({}, regions, patterns, f"exit status {done.returncode}: {said}", messages)
    return Outcome(printed_values(done.stdout), regions, patterns, messages=messages)


def _regions(report: dict[str, Any]) -> tuple[list[dict[str, str]], list[list[list[str]]]]:
    """Nodes of every region, and of its patterns; those of the executable with the most patterns."""
    patterns: dict[tuple[int, int], list[list[str]]] = {}
    for kernel in report["kernels"]:
        if kernel["pattern"] is not None:
            patterns.setdefault((kernel["region"], kernel["build"]), []).append(kernel["nodes"])
    regions = sorted(report["regions"], key=lambda region: region["id"])
    most = [max((nodes for (number, _), nodes in patterns.items() if number == region["id"]), key=len, default=[])
            for region in regions]  # fmt: skip
    return [region["nodes"] for region in regions], most


def _verdict(culprit: Culprit, command: Sequence[str]) -> Iterator[str]:
    line, region = shlex.join(command), culprit.region
    yield f"\nregion {region} is the first that makes a difference: {culprit.how}"
    if culprit.nodes is None:
        yield "the run left no report that names its nodes; TF_STITCH_DUMP_DIR shows them"
    elif culprit.pattern is None:
        yield f"it does so with every op in a kernel of its own, too; its {len(culprit.nodes)} nodes:"
        yield from (f"  {name} ({op})" for name, op in culprit.nodes.items())
    else:
        yield f"of its {len(culprit.nodes)} nodes, pattern {culprit.pattern} is the first that does; it computes:"
        yield from (f"  {name} ({culprit.nodes.get(name, '?')})" for name in culprit.pattern_nodes)
    after = f"{region + 1}r" if culprit.pattern is None else f"{region}.{culprit.pattern + 1}"
    before = f"{region}r" if culprit.pattern is None else f"{region}.{culprit.pattern}"
    yield f"with it:    TF_STITCH=1 TF_STITCH_FUEL={after} {line}"
    yield f"without it: TF_STITCH=1 TF_STITCH_FUEL={before} {line}"
    yield f"its stages: TF_STITCH=1 TF_STITCH_FUEL={after} TF_STITCH_DUMP_DIR=dump {line}"
    yield f"            then see dump/region_{region}_*"


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 where there is nothing to find."""
    values = flags.FlagValues()
    flags.DEFINE_float("tolerance", 1e-3, "relative difference that does not count", lower_bound=0, flag_values=values)
    flags.DEFINE_float("timeout", None, "seconds after which a run counts as failed", flag_values=values)
    command = parse("bisect", __doc__, values, arguments, stop=True)
    if not command:
        return wrong("bisect", "a command, please, after --")

    def run(fuel: str | None) -> Outcome:
        outcome = execute(command, ON | ({} if fuel is None else {"TF_STITCH_FUEL": fuel}), values.timeout)
        if outcome.failure is None and outcome.regions is None:
            raise BisectError("tf_stitch was not active in the command: install it into that Python, or run "
                              "python -m tf_stitch script.py")  # fmt: skip
        return outcome

    try:
        plain = execute(command, {"TF_STITCH": "0"}, values.timeout)
        print(f"plain: {len(plain.values)} values to compare")
        culprit = find_culprit(plain, run, values.tolerance)
    except BisectError as error:
        print(f"bisect: {error}", file=sys.stderr)
        return 1
    print("\n".join(_verdict(culprit, command)))
    return 0
