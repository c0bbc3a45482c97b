"""No ladder of isinstance: what differs by type is a table (kernel_ir.by_type), a method, or a role of a field."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.statement_kinds import KINDS
from tf_stitch.emit.cpu import _Cpu
from tf_stitch.emit.cuda import CudaKernel
from tf_stitch.errors import VerifyError
from tf_stitch.kernel_ir import count_work, interpreter, text_format
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.by_type import ByType

PACKAGE = Path(__file__).parents[2] / "tf_stitch"
LONGEST = 8


def ladders(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(function and what it asks, how often): one function that asks one thing whether it is of a type, by isinstance
    or by cases of a match that name classes."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        asked: Counter[str] = Counter()
        inside: list[ast.AST] = list(function.body)
        while inside:
            node = inside.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue  # has its own
            inside += ast.iter_child_nodes(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                asked[ast.unparse(node.args[0])] += 1
            elif isinstance(node, ast.Match):
                asked[ast.unparse(node.subject)] += sum(isinstance(case.pattern, ast.MatchClass | ast.MatchOr)
                                                        for case in node.cases)
        yield from ((f"{function.name}({subject})", count) for subject, count in asked.items())


def test_no_function_asks_one_thing_for_many_types() -> None:
    found = {f"{path.relative_to(PACKAGE)}: {name}": count for path in sorted(PACKAGE.rglob("*.py"))
             for name, count in ladders(ast.parse(path.read_text())) if count > LONGEST}
    assert not found


def test_ladders_are_counted() -> None:
    isinstances = "\n    ".join(f"if isinstance(x, T{i}): return {i}" for i in range(9))
    matches = "\n        ".join(f"case T{i}(): return {i}" for i in range(9))
    source = f"def one(x):\n    {isinstances}\ndef two(x):\n    match x:\n        {matches}\n"
    assert list(ladders(ast.parse(source))) == [("one(x)", 9), ("two(x)", 9)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_statement_has_its_rules(kind: type) -> None:
    stmt = object.__new__(kind)
    assert count_work._rules.of(stmt)
    assert has(text_format._LINES, stmt, text_format._LINE)
    at_the_top = kind in (k.GridLoop, k.ThreadRange, k.GridBarrier, k.GroupBarrier, k.ClusterStarted, k.ClusterBarrier)
    assert at_the_top or has(interpreter._together, stmt, interpreter._per_thread)
    assert kind in (k.Prefetch, k.TileProduct) or CudaKernel.rules.of(stmt)
    assert kind in GPU_ALONE or _Cpu.rules.of(stmt)


GPU_ALONE = {k.AllReduce, k.ArgAllReduce, k.Barrier, k.GridBarrier, k.GroupBarrier, k.Send, k.ClusterStarted,
             k.ClusterBarrier, k.AsyncCopy, k.AwaitAsyncCopies, k.AwaitDependencies, k.LoadVector,
             k.StoreVector, k.LoadFence, k.Attention,
             k.AttentionQueryGradient, k.AttentionKeyGradient, k.Matmul, k.MatmulPrefetch, k.GridLoop,
             k.ThreadRange}


@pytest.mark.parametrize("kind", sorted(GPU_ALONE, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_a_cpu_refuses_what_needs_threads(kind: type) -> None:
    with pytest.raises(VerifyError, match=f"one thread, has no rule for {kind.__name__}"):
        _Cpu.rules.of(object.__new__(kind))


def has(table: ByType[object], stmt: object, others: ByType[object]) -> bool:
    """Whether one of two tables has a rule of its own."""
    return not {*type(stmt).__mro__}.isdisjoint({*table._rules, *others._rules})
