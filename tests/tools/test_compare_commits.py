"""The comparison of two commits: turns, ratios, and what is read of what programs print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tools.benchmark.commits import Checkout, Times, compare, table

ROOT = Path(__file__).parents[2]


class Fake(Checkout):
    """Answers with a text."""

    def __init__(self, folder: Path, text: str) -> None:
        self._folder, self._cache, self.text = folder, folder, text
        (folder / "native").mkdir()
        (folder / "tf_stitch").mkdir()
        (folder / "tf_stitch" / "config.py").touch()
        self.commands: list[tuple[str, ...]] = []

    def run(self, *command: str, stdin: str = "", **variables: str) -> str:
        self.commands.append(command)
        return self.text


def test_a_checkout_gets_no_module_of_another(tmp_path: Path) -> None:
    native = tmp_path / "old" / "tf_stitch" / "native"
    native.mkdir(parents=True)
    (native / "build.py").write_text("GRAPH_HOOK = STITCH_OP = None\ndef build_library(*_): return None\n")
    checkout = Checkout(tmp_path / "old", tmp_path / "cache")
    assert checkout.run("-c", "import numpy, tf_stitch.native.build as b; print(b.__file__)").strip() == str(
        native / "build.py")
    with pytest.raises(RuntimeError, match=r"No module named .tf_stitch\.plugin"):
        checkout.run("-c", "import tf_stitch.plugin.autoload")


def test_both_run_in_turns_and_who_is_first_changes() -> None:
    turns: list[str] = []

    def measure(checkout: Checkout) -> Times:
        turns.append(cast(str, checkout))
        return {"a step, ms": float(len(turns))}

    found = compare(cast(Any, {"before": "old", "after": "new"}), 2, [measure])
    assert turns == ["new", "old", "old", "new"]
    assert found == {"a step, ms": {"before": [2.0, 3.0], "after": [1.0, 4.0]}}


def test_ratios_are_those_of_the_rounds() -> None:
    said = table({"x, s": {"before": [1.0, 2.0, 4.0], "after": [2.0, 1.0, 4.0]}})
    assert said.splitlines()[-1] == "| x, s | 2 | 2 | 1.000 | 0.500 | 2.000 |"


def test_milliseconds_of_every_mode_are_read(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "step 1 loss 2.5\ntrain 12.5 ms per step, first 9 ms\ninfer 1.501 ms per step, first 7 ms\n")
    assert fake.steps("dyn-rnn", 7) == {"dyn-rnn train, ms": 12.5, "dyn-rnn infer, ms": 1.501}
    assert fake.commands == [("-m", "tf_stitch", "-m", "models.dyn_rnn", "--steps", "7")]


@pytest.mark.parametrize("old", [True, False])
def test_the_worker_of_either_layout_is_asked(tmp_path: Path, old: bool) -> None:
    if old:
        (tmp_path / "tools" / "benchmarking").mkdir(parents=True)
        (tmp_path / "tools" / "benchmarking" / "region_worker.py").touch()
    fake = Fake(tmp_path, '{}\n{"seconds": 1.25}\n')
    assert fake.first_call("tiny")["first call, tiny train, s"] == 1.25
    [command] = fake.commands
    assert command[2].endswith("region_worker.py") == old


def test_planning_of_this_checkout(tmp_path: Path) -> None:
    """By its tool, in a process of its own."""
    checkout = Fake(tmp_path, "")
    checkout.run = lambda *command, **_: subprocess.run(  # type: ignore[method-assign]
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = checkout.planning(["60"], ["transformer"])
    assert list(found) == ["planning transformer 60 (made-up), processor s"]
    assert json.dumps(found)
