"""Values are remembered by what they are computed from, in the scope that holds them."""

from __future__ import annotations

import pytest

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.lowering.scopes import ScopedEmitter

A, B = var(Var("a", 4)), var(Var("b", 8))


def test_a_value_is_known_inside_and_forgotten_with_its_scope() -> None:
    out = ScopedEmitter(lambda buffer: 32)
    with out.loop(Var("a", 4), k.Loop.SERIAL):
        row, key = k.Load("x", A, DType.F32), ("row", (A,))
        value = out.let(row, key)
        with out.loop(Var("b", 8), k.Loop.SERIAL):
            assert out.lookup(("row", (A + 0,))) == value
            assert out.lookup(("row", (A, B))) is None
        assert out.let(row, key) == value, "the scope of b held nothing of it"
    assert out.lookup(key) is None


def test_an_error_inside_a_vector_leaves_the_scopes_as_they_were() -> None:
    """A row that is needed at other rows than its own is said while scopes are put aside; another schedule is tried."""
    out, lane = ScopedEmitter(lambda buffer: 32), Var("b", 8)

    def fill(array: str) -> None:
        raise ScheduleError("no such row")

    with pytest.raises(ScheduleError, match="no such row"), out.loop(Var("a", 4), k.Loop.SERIAL), \
            out.loop(lane, k.Loop.UNROLL):
        out.vector_of(lane, "part", DType.F32, fill)
    assert out.statements == ()
