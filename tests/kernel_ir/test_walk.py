"""Every part of every statement is found."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from tests.support.statement_kinds import KINDS
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, var
from tf_stitch.kernel_ir.roles import Role, names_of
from tf_stitch.kernel_ir.walk import accesses, arrays, bodies, operands, rebuilt, statements

STEP, X = Var("i", 4), DType.F32
LOAD = k.Load("a", var(STEP), X)
BODY = (k.Array("t", X, 4, k.Space.SHARED),
        k.For(STEP, (k.Let("v", LOAD),
                  k.If(k.InRange(var(STEP), 0, 2), (k.Store("b", var(STEP), k.Apply(OpKind.ADD, (LOAD, LOAD), X)),),
                       (k.LoadVector("t", constant(0), "c", constant(0), 4),)))))


def test_statements_come_in_program_order() -> None:
    names = [type(s).__name__ for s in statements(BODY)]
    assert names == ["Array", "For", "Let", "If", "Store", "LoadVector"]
    assert [a.name for a in arrays(BODY, k.Space.SHARED)] == ["t"]
    assert not list(arrays(BODY, k.Space.LOCAL))


def test_a_statement_reads_before_it_writes() -> None:
    assert [(a.buffer, a.write) for a in accesses(BODY)] == [
        ("a", False), ("a", False), ("a", False), ("b", True), ("c", False)]


def test_leaves_are_replaced_where_they_stand() -> None:
    renamed = rebuilt(BODY, lambda field, leaf: leaf.upper() if field == "buffer" else leaf)
    assert [a.buffer for a in accesses(renamed)] == ["A", "A", "A", "B", "C"]
    assert [a.name for a in arrays(renamed)] == ["t"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_part_of_a_statement_is_forgotten(kind: type) -> None:
    """By type: a new field that holds an expression, an index or a body has to declare its role."""
    samples: dict[Any, Any] = {k.Expr: k.Local("x", X), Index: constant(7), Index | k.Expr: constant(8),
                               Index | None: constant(9), k.Expr | None: k.Local("y", X),
                               tuple[k.Stmt, ...]: (k.Barrier(),)}
    stmt = object.__new__(kind)
    hints = get_type_hints(kind)
    for f in fields(kind):
        object.__setattr__(stmt, f.name, samples.get(hints[f.name]))
    parts = [getattr(stmt, f.name) for f in fields(kind)]
    assert set(operands(stmt)) == {part for part in parts if isinstance(part, Index | k.Local)}
    assert list(bodies(stmt)) == [part for part in parts if isinstance(part, tuple)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_name_of_a_buffer_or_array_has_a_role(kind: type) -> None:
    names = {f.name for f in fields(kind)} & {"buffer", "array", "q", "k", "v", "out", "tiles", "best", "at", "name"}
    strings = {name for name in names if get_type_hints(kind)[name] is str}
    stmt = object.__new__(kind)
    declared = {name for role in Role for name in names_of(stmt, role)}
    assert strings <= declared or kind is k.Array, "an array has a place besides a name"
