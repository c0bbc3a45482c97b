"""Measures of the tree, on pieces whose measures are known."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools.structure import Way, complexity, files_of, followed, upward_imports


def module(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module in a folder, imported."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, made)
    spec.loader.exec_module(made)
    return made


def test_a_way_goes_into_functions_once_and_back_to_who_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = module(tmp_path, "way_value", "class Value:\n    def own(self): return 1\n", monkeypatch)
    monkeypatch.syspath_prepend(str(tmp_path))
    module(tmp_path, "way_pass", "def rewrite(value):\n    value.own()\n    return helper(3)\n"
           "def helper(number):\n    return number\n", monkeypatch)
    table = module(tmp_path, "way_table", "from way_pass import rewrite\n"
                   "def run(value):\n    for _ in range(3):\n        rewrite(value)\n", monkeypatch)
    way = followed(lambda: table.run(value.Value()), (value.Value,), tmp_path)
    assert way == Way(("way_table: run", "way_pass: rewrite"), ("way_table", "way_pass", "way_table"))
    assert way.returns == 1


def test_returns_to_the_pass_manager_are_told_apart() -> None:
    way = Way((), ("pipeline", "pass_manager", "passes.cse", "pass_manager", "passes.recompute", "pass_manager",
                   "pipeline"))
    assert (way.returns, way.returns_to_lists) == (3, 2)


@pytest.mark.parametrize(("body", "count"), [
    ("return 1", 1), ("if x: return 1", 2), ("return x and x or x", 3), ("return [y for y in x if y]", 3),
    ("for y in x:\n        while y: y = 1 if y else 0", 4), ("def inner():\n        if x: return", 2)])
def test_complexity(body: str, count: int) -> None:
    [function] = ast.parse(f"def f(x):\n    {body}").body
    assert isinstance(function, ast.FunctionDef)
    assert complexity(function) == count


def test_files_of_a_tutorial() -> None:
    page = ("```python\n# tf_stitch/passes/a.py\n```\n"
            "```diff\n--- tests/passes/test_a.py\n--- tf_stitch/passes/a.py\n```\n")
    assert files_of(page) == (["tf_stitch/passes/a.py"], ["tests/passes/test_a.py"])


def test_nothing_is_imported_upwards() -> None:
    assert upward_imports() == []
