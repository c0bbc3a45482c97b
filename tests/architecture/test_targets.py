"""What kind of device there is, is asked in targets/ alone; everybody else asks what a device can do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.test_imports import MODULES, part_of
from tests.support.rules import holds_for


def names(tree: ast.AST) -> Iterator[str]:
    """Every identifier of a module: names, attributes, arguments and definitions."""
    for node in ast.walk(tree):
        found = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg", ast.FunctionDef: "name"}
        name = found.get(type(node))
        if name is not None and getattr(node, name) is not None:
            yield getattr(node, name)


def widths(tree: ast.AST) -> Iterator[int]:
    """Lines where a name that says warp, or lanes of one, is given a number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            says = any(isinstance(t, ast.Name) and t.id.lower().strip("_") in ("warp", "warp_size", "lanes")
                       for t in targets)
            if says and isinstance(node.value, ast.Constant) and type(node.value.value) is int and node.value.value > 1:
                yield node.lineno


@holds_for(sorted(MODULES))
def test_only_targets_ask_for_the_kind_of_a_device(module: str) -> None:
    asked = set(names(ast.parse(MODULES[module].read_text()))) & {"is_gpu"}
    assert not asked or part_of(module) == "targets", (
        f"{module} asks whether a device is a GPU: ask DeviceSpec what it can do (simt, queued, grid_barrier, ...), or "
        "let its Target do it")


@holds_for(sorted(MODULES))
def test_the_width_of_a_warp_is_the_device_s(module: str) -> None:
    lines = list(widths(ast.parse(MODULES[module].read_text())))
    assert not lines, f"{module}:{lines}: a device says how wide its warps are (DeviceSpec.warp)"


def test_what_would_be_found() -> None:
    assert "is_gpu" in set(names(ast.parse("def f(d):\n    return d.is_gpu\n")))
    assert "is_gpu" in set(names(ast.parse("is_gpu = True\n")))
    assert list(widths(ast.parse("x = 1\nWARP = 32\n"))) == [2]
    assert list(widths(ast.parse("class D:\n    warp: int = 1\n    warp_size: int = 64\n"))) == [3]
