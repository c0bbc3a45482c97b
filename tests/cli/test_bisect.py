"""The search for the region that makes a result differ, with runs that are made up, and with commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fork_server import ForkServer
from tests.support.start import python_path
from tf_stitch.cli import bisect as bisecting
from tf_stitch.cli.bisect import BisectError, Culprit, Outcome, difference, find_culprit, first_true, printed_values

ROOT = Path(__file__).parents[2]
PLAIN = Outcome({"step 1": 1.0, "step 2": 0.5})


class Script:
    """A command with `total` regions of `patterns` patterns each. Of the regions in `wrong` the given pattern spoils
    the second loss; -1: every form of the region."""

    def __init__(self, total: int, patterns: int, wrong: dict[int, int], crash: bool = False) -> None:
        self.total, self.patterns, self.wrong, self.crash = total, patterns, wrong, crash
        self.fuels: list[str | None] = []

    def __call__(self, fuel: str | None) -> Outcome:
        self.fuels.append(fuel)
        whole, point, kept = ("999", "", "") if fuel is None else fuel.removesuffix("r").partition(".")
        stitched = dict.fromkeys(range(min(int(whole), self.total)), self.patterns)
        if point and int(whole) < self.total:
            stitched[int(whole)] = min(int(kept), self.patterns)
        bad = any(stitched.get(region, -2) > pattern for region, pattern in self.wrong.items())
        if bad and self.crash:
            return Outcome({}, failure="exit status -11: ")
        regions = [{f"node_{region}": "Tanh"} for region in stitched]
        patterns = [[[f"part_{i}"] for i in range(count)] for count in stitched.values()]
        return Outcome({"step 1": 1.0, "step 2": 0.5 + 0.1 * bad}, regions, patterns)


def search(script: Callable[[str | None], Outcome], tolerance: float = 1e-3) -> Culprit:
    return find_culprit(PLAIN, script, tolerance, say=lambda line: None)


@given(total=st.integers(1, 300), patterns=st.integers(0, 20), data=st.data())
def test_finds_the_first_wrong_pattern(total: int, patterns: int, data: st.DataObject) -> None:
    wrong = data.draw(st.dictionaries(st.integers(0, total - 1), st.integers(-1, patterns - 1), min_size=1, max_size=3))
    script = Script(total, patterns, wrong)
    culprit = search(script)
    assert culprit.region == min(wrong)
    assert culprit.nodes == {f"node_{min(wrong)}": "Tanh"}
    first = wrong[min(wrong)]
    assert culprit.pattern == (None if first < 0 else first)
    assert culprit.pattern_nodes == ([] if first < 0 else [f"part_{first}"])
    assert len(script.fuels) == len(set(script.fuels)) <= 4 + 2 * total.bit_length() + patterns.bit_length()


@given(total=st.integers(1, 300), data=st.data())
def test_finds_the_first_region_that_crashes(total: int, data: st.DataObject) -> None:
    wrong = data.draw(st.dictionaries(st.integers(0, total - 1), st.just(0), min_size=1, max_size=3))
    culprit = search(Script(total, 2, wrong, crash=True))
    assert (culprit.region, culprit.nodes, culprit.pattern) == (min(wrong), None, None)


def test_says_when_there_is_nothing_to_find() -> None:
    with pytest.raises(BisectError, match="agree"):
        search(Script(5, 1, {}))
    with pytest.raises(BisectError, match="not deterministic"):
        search(lambda fuel: Outcome({"step 1": 1.0, "step 2": 0.7}, []))
    with pytest.raises(BisectError, match="without tf_stitch"):
        find_culprit(Outcome({}, failure="exit status 1"), Script(1, 1, {0: 0}), 0.0)
    with pytest.raises(BisectError, match="prints no number"):
        find_culprit(Outcome({}), Script(1, 1, {0: 0}), 0.0)


def test_first_true_needs_no_last() -> None:
    assert first_true(lambda n: n >= 77, None) == 77
    with pytest.raises(BisectError):
        first_true(lambda n: False, None)


def test_differences() -> None:
    nan = float("nan")
    assert difference(PLAIN, PLAIN, 0.0) is None
    assert difference(PLAIN, Outcome({"step 1": 1.0, "step 2": 0.5004}), 1e-3) is None
    assert "0.6 in place of 0.5" in str(difference(PLAIN, Outcome({"step 1": 1.0, "step 2": 0.6}), 1e-3))
    assert "step 2" in str(difference(PLAIN, Outcome({"step 1": 1.0}), 1e-3))
    assert "step 2" in str(difference(PLAIN, Outcome({"step 1": 1.0, "step 2": nan}), 1e-3))
    assert difference(Outcome({"a": nan, "b": 0.0}), Outcome({"a": nan, "b": -0.0}), 0.0) is None


def test_printed_values() -> None:
    log = "step 1 loss 2.5\nstep 2 accuracy 0.1 loss: 1e-3, 4 ms\nsteady_step_ms 3.1\n"
    assert printed_values(log) == {"step 1": 2.5, "step 2": 1e-3}
    assert printed_values("hello 3\nloss -1.5e+3 after 2 epochs\n") == {"number 1": -1500.0, "number 2": 2.0}
    assert printed_values("no numbers\n") == printed_values("") == {}


def test_a_command(tmp_path: Path) -> None:
    """A program in place of TensorFlow and tf_stitch: its third region is wrong."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os\n"
        "on = os.environ['TF_STITCH'] == '1'\n"
        "whole, _, kept = os.environ.get('TF_STITCH_FUEL', '9').removesuffix('r').partition('.')\n"
        "patterns = {i: 5 for i in range(min(int(whole), 9))} if on else {}\n"
        "if on and kept: patterns[int(whole)] = int(kept)\n"
        "print('step 1 loss', 2.5 if patterns.get(2, 0) > 3 else 2.0)\n"
        "entries = [{'id': i, 'nodes': {f'node_{i}_{k}': 'Exp' for k in range(5)}} for i in patterns]\n"
        "kernels = [{'region': i, 'build': 0, 'pattern': k, 'nodes': [f'node_{i}_{k}']}\n"
        "           for i, n in patterns.items() for k in range(n)]\n"
        "path = os.environ.get('TF_STITCH_REPORT', '') + '/report.json'\n"
        "if on: json.dump({'regions': entries, 'kernels': kernels}, open(path, 'w'))\n"
    )
    command = [sys.executable, "-m", "tf_stitch", "bisect", "--", sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "region 2 is the first" in done.stdout
    assert "of its 5 nodes, pattern 3 is the first that does; it computes:\n  node_2_3 (Exp)\n" in done.stdout
    assert f"TF_STITCH=1 TF_STITCH_FUEL=2.4 {sys.executable} {program}" in done.stdout


def test_tells_when_tf_stitch_is_not_active() -> None:
    command = [sys.executable, "-m", "tf_stitch", "bisect", "--", sys.executable, "-c", "print('loss 1.0')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "not active" in done.stderr


def test_region_names_come_from_the_report() -> None:
    def kernel(build: int, pattern: int | None, node: str) -> dict[str, object]:
        return {"region": 1, "build": build, "pattern": pattern, "nodes": [node]}

    report = {"regions": [{"id": 1, "nodes": {"b": "Exp"}}, {"id": 0, "nodes": {"a": "Tanh"}}],
              "kernels": [kernel(0, 0, "b"), kernel(1, 0, "b"), kernel(1, None, "x"), kernel(1, 1, "c")]}
    assert bisecting._regions(report) == ([{"a": "Tanh"}, {"b": "Exp"}], [[], [["b"], ["c"]]])


@pytest.mark.timeout(900)
def test_finds_a_wrong_kernel(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(__file__).parent / "wrong_kernel_program.py"
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))
    monkeypatch.setenv("TF_STITCH_SCOPE", "ops")  # the matmuls between its regions are small
    command = [sys.executable, "-m", "tf_stitch", "bisect", "--", *fork_server.command, "-m", "tf_stitch.__main__",
               str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "region 1 is the first that makes a difference: step 0: " in done.stdout
    assert "pattern 1 is the first that does; it computes:\n" in done.stdout
    assert "  layer_1/mul_2 (Mul)\n" in done.stdout
    assert "TF_STITCH_FUEL=1.2" in done.stdout
