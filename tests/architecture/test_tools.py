"""Tools are modules of one package, `python -m tools.NAME`: none edits sys.path, none has its parts in a twin."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.rules import holds_for

TOOLS = Path(__file__).parents[2] / "tools"
TESTS = TOOLS.parent / "tests"


@holds_for(sorted(TOOLS.rglob("*.py")))
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


def test_tools_that_tests_import_name_their_flags_apart() -> None:
    """absl has one table of flags a process, and all tests may run in one."""
    owners: dict[str, set[str]] = {}
    for module in {name for path in TESTS.rglob("*.py") for name in imported(ast.parse(path.read_text()))}:
        path = TOOLS.parent / f"{module.replace('.', '/')}.py"
        for call in ast.walk(ast.parse(path.read_text())) if path.exists() else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("flags.DEFINE_"):
                owners.setdefault(ast.literal_eval(call.args[0]), set()).add(module)
    assert {flag: sorted(modules) for flag, modules in owners.items() if len(modules) > 1} == {}, \
        "move what is tested into a module without flags, under tools/benchmark"


def imported(tree: ast.Module) -> set[str]:
    """Modules of tools, and names in its packages that may be such."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tools":
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("tools.")}
    return found
