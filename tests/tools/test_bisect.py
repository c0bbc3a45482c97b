"""The search for the region that makes a result differ, with runs that are made up, and with commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bisecting
import pytest
from bisecting import BisectError, Culprit, Outcome, difference, find_culprit, first_true, printed_values
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
PLAIN = Outcome({"step 1": 1.0, "step 2": 0.5})


class Script:
    """A command with `total` regions, of which those in `wrong` spoil the second loss."""

    def __init__(self, total: int, wrong: set[int], crash: bool = False) -> None:
        self.total, self.wrong, self.crash = total, wrong, crash
        self.fuels: list[int | None] = []

    def __call__(self, fuel: int | None) -> Outcome:
        self.fuels.append(fuel)
        stitched = range(self.total if fuel is None else min(fuel, self.total))
        bad = any(region in self.wrong for region in stitched)
        if bad and self.crash:
            return Outcome({}, None, "exit status -11: ")
        regions = [{f"node_{region}": "Tanh"} for region in stitched]
        return Outcome({"step 1": 1.0, "step 2": 0.5 + 0.1 * bad}, regions)


def search(script: Callable[[int | None], Outcome], tolerance: float = 1e-3) -> Culprit:
    return find_culprit(PLAIN, script, tolerance, say=lambda line: None)


@given(total=st.integers(1, 300), data=st.data(), crash=st.booleans())
def test_finds_the_first_wrong_region(total: int, data: st.DataObject, crash: bool) -> None:
    wrong = data.draw(st.sets(st.integers(0, total - 1), min_size=1, max_size=3))
    script = Script(total, wrong, crash)
    culprit = search(script)
    assert culprit.fuel == min(wrong) + 1
    assert culprit.nodes == (None if crash else {f"node_{min(wrong)}": "Tanh"})
    assert len(script.fuels) <= 2 + 2 * total.bit_length()


def test_says_when_there_is_nothing_to_find() -> None:
    with pytest.raises(BisectError, match="agree"):
        search(Script(5, set()))
    with pytest.raises(BisectError, match="not deterministic"):
        search(lambda fuel: Outcome({"step 1": 1.0, "step 2": 0.7}, []))
    with pytest.raises(BisectError, match="without tf_stitch"):
        find_culprit(Outcome({}, failure="exit status 1"), Script(1, {0}), 0.0)
    with pytest.raises(BisectError, match="prints no number"):
        find_culprit(Outcome({}), Script(1, {0}), 0.0)


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
        "regions = range(min(int(os.environ.get('TF_STITCH_FUEL', 9)), 9)) if on else []\n"
        "print('step 1 loss', 2.5 if 2 in regions else 2.0)\n"
        "entries = [{'id': i, 'nodes': {f'node_{i}': 'Exp'}} for i in regions]\n"
        "if on: json.dump({'regions': entries}, open(os.environ['TF_STITCH_REPORT'] + '/report.json', 'w'))\n"
    )
    command = [sys.executable, str(ROOT / "tools" / "bisect.py"), "--", sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "region 2 is the first" in done.stdout
    assert "node_2 (Exp)" in done.stdout
    assert f"TF_STITCH=1 TF_STITCH_FUEL=3 {sys.executable} {program}" in done.stdout


def test_tells_when_tf_stitch_is_not_active() -> None:
    command = [sys.executable, str(ROOT / "tools" / "bisect.py"), "--", sys.executable, "-c", "print('loss 1.0')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "not active" in done.stderr


def test_programs_beside_bisect_keep_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import random, bisect; " \
           "print(bisect.__file__, bisect.bisect([1, 3], 2), random.choices([7], k=1))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[1:] == ["1", "[7]"], done.stderr
    assert json.dumps(done.stdout.split()[0]).endswith('tools/bisect.py"')


def test_region_names_come_from_the_report() -> None:
    report = {"regions": [{"id": 1, "nodes": {"b": "Exp"}}, {"id": 0, "nodes": {"a": "Tanh"}}]}
    assert bisecting._regions(report) == [{"a": "Tanh"}, {"b": "Exp"}]
