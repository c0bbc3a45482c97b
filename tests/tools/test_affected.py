"""What a change may affect is found by steps from file to file, the nearest first."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tools.affected import (
    ALL_KINDS,
    ROOT,
    SECONDS,
    WHOLE_TREE,
    Sources,
    files_of_tree,
    nearest,
    seconds_on_record,
    workers_on,
)
from tools.mutants.__main__ import MUTANTS

FILES = {
    "tf_stitch/a/__init__.py": "",
    "tf_stitch/a/low.py": "",
    "tf_stitch/a/middle.py": "from . import low",
    "tf_stitch/a/high.py": "def f():\n    from tf_stitch.a.middle import x",
    "tf_stitch/a/kernel.cu": '#include "part.h"\n',
    "tf_stitch/a/part.h": "",
    "tf_stitch/a/emits.py": "TEXT = 'kernel.cu'",
    "tf_stitch/a/lonely.csv": "",
    "tests/a/test_low.py": "",
    "tests/a/test_middle.py": "import tf_stitch.a.middle",
    "tests/a/test_high.py": "from tf_stitch.a import high",
    "tests/a/test_emits.py": "from tf_stitch.a.emits import TEXT",
    "tests/b/conftest.py": "PROGRAM = 'programs/small.py'",
    "tests/b/programs/small.py": "",
    "tests/b/test_program.py": "",
    "tests/b/test_module.py": "COMMAND = ['-m', 'tf_stitch.a.high']",
    "tests/golden/one.txt": "",
    "tests/golden/test_golden.py": "def test(golden): golden('one', '')",
}


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Sources(list(FILES), tmp_path)


@pytest.mark.parametrize(("changed", "tests"), [
    ("tf_stitch/a/high.py", {"a/test_high.py": 1, "b/test_module.py": 1}),  # imported, and started as a module
    ("tf_stitch/a/low.py", {"a/test_low.py": 1, "a/test_middle.py": 2, "a/test_high.py": 3, "b/test_module.py": 3}),
    ("tf_stitch/a/part.h", {"a/test_emits.py": 3}),  # included in a source that is named
    ("tests/b/programs/small.py", {"b/test_program.py": 2, "b/test_module.py": 2}),  # by a conftest.py
    ("tests/golden/one.txt", {"golden/test_golden.py": 1}),
    ("tf_stitch/a/lonely.csv", {f"a/test_{name}.py": 1 for name in ("low", "middle", "high", "emits")}),
    ("tests/a/test_low.py", {"a/test_low.py": 0}),
])  # fmt: skip
def test_steps_from_a_change_to_tests(sources: Sources, changed: str, tests: dict[str, int]) -> None:
    steps = sources.steps([changed])
    assert {file.removeprefix("tests/"): steps[file] for file in sources.tests if file in steps} == tests


def test_the_nearest_and_quickest_run(sources: Sources) -> None:
    seconds = {"tests/a/test_low.py": 50.0, "tests/a/test_middle.py": 20.0, "tests/a/test_high.py": 20.0}
    run, left_out = nearest(sources, ["tf_stitch/a/low.py"], seconds, 75.0)
    assert run == ["tests/a/test_low.py", "tests/a/test_middle.py", "tests/b/test_module.py"]
    assert left_out == ["tests/a/test_high.py"]
    assert nearest(sources, ["tests/a/test_low.py"], seconds, 10.0) == (["tests/a/test_low.py"], []), "changed itself"


@cache
def _tree() -> Sources:
    return Sources(files_of_tree())


def test_what_is_named_in_the_tool_is_there() -> None:
    assert set(ALL_KINDS) <= set(_tree().tests)
    assert any(test.startswith(WHOLE_TREE) for test in _tree().tests)
    assert WHOLE_TREE + "test_imports.py" in _tree().steps(["docs/architecture.md"])


def test_tests_that_kill_mutants_are_chosen() -> None:
    """On two processors. Those that are not are far from the mutant: tests of layers high above, and of one case."""
    seconds, most = seconds_on_record(), workers_on(2) * SECONDS
    chosen = {file: set(nearest(_tree(), [file], seconds, most)[0]) for file in {m.file for m in MUTANTS}}
    missed = [mutant.name for mutant in MUTANTS
              if not chosen[mutant.file] & {test.partition("::")[0] for test in mutant.tests}]
    assert len(MUTANTS) - len(missed) >= 50
    assert len(missed) < 0.08 * len(MUTANTS), missed


def test_the_command_says_what_is_left_out() -> None:
    done = subprocess.run([sys.executable, "-m", "tools.affected", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nearest test files run" in done.stderr
    assert all((ROOT / line).is_file() for line in done.stdout.splitlines())
    wrong = subprocess.run([sys.executable, "-m", "tools.affected", "no-such-branch"], cwd=ROOT, capture_output=True,
                           text=True)
    assert wrong.returncode == 1
    assert "no-such-branch" in wrong.stderr
