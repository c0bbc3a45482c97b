"""Tools are modules of one package, `python -m tools.NAME`: none edits sys.path, none has its parts in a twin."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.mark.parametrize("path", sorted(TOOLS.rglob("*.py")), ids=lambda path: str(path.relative_to(TOOLS)))
def test_no_tool_edits_the_path(path: Path) -> None:
    edits = [node for node in ast.walk(ast.parse(path.read_text())) if ast.unparse(node) == "sys.path"]
    assert not edits, "run it as `python -m tools.NAME`, from the root of the clone"


def test_a_tool_is_a_module_or_a_package() -> None:
    modules = {path.stem for path in TOOLS.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in TOOLS.glob("*/__init__.py")}
    assert not modules & packages
    twins = {(one, other) for one in modules | packages for other in packages
             if other.endswith("ing") and one != other and other.removesuffix("ing")[:4] == one[:4]}
    assert not twins, "the parts of a tool are in the package of its name"
