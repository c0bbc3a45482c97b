"""A kernel family is named by itself and by families/registry.py; everybody else asks its KernelFamily."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.test_imports import MODULES, imports, part_of
from tests.support.rules import holds_for
from tf_stitch.families.registry import FAMILIES
from tf_stitch.schedule.kernel_schedule import COOPERATIVE

NAMES = {family.name for family in FAMILIES}
AMBIGUOUS = {"transpose", "scan", "scatter", "elementwise"}
"""Words for ops, too."""
MODULES_OF_FAMILIES = {name for name in MODULES if name.startswith("families.")} - {"families.registry",
                                                                                     "families.family"}


def named(tree: ast.AST) -> Iterator[str]:
    """Families whose names a module compares with, looks up or keeps: strings, but for docstrings."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documents and node.value in NAMES - AMBIGUOUS:
            yield str(node.value)


def compared(tree: ast.AST) -> Iterator[int]:
    """Lines where a schedule's family is compared with something."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if any(isinstance(side, ast.Attribute) and side.attr == "family" for side in sides):
            yield node.lineno


@holds_for(sorted(m for m in MODULES if part_of(m) != "families"))
def test_nobody_else_asks_which_family_it_is(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text())
    assert not list(named(tree)), f"{module} names {sorted(set(named(tree)))}: let KernelFamily say what it needs"
    assert not list(compared(tree)), f"{module}:{list(compared(tree))}: let KernelFamily say what is asked there"


@holds_for(sorted(m for m in MODULES if part_of(m) != "families"))
def test_others_know_the_list_alone(module: str) -> None:
    found = {name.removeprefix("tf_stitch.") for name in imports(ast.parse(MODULES[module].read_text()))}
    assert not found & MODULES_OF_FAMILIES, f"{module} imports {sorted(found & MODULES_OF_FAMILIES)}: ask family_of"


def test_names_are_distinct() -> None:
    assert len(NAMES) == len(FAMILIES)
    assert COOPERATIVE not in NAMES


def test_what_would_be_found() -> None:
    assert list(named(ast.parse("if rule == 'row_reduction':\n    pass\n"))) == ["row_reduction"]
    assert not list(named(ast.parse("\"row_reduction\"\n")))
    assert list(compared(ast.parse("x = 1\ny = schedule.family == other\n"))) == [2]
