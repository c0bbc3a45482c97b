"""Loads of weights come before the wait for other launches; the rest, and what does not fit, stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.dependencies import read_before
from tf_stitch.kernel_ir.index import Index, Var, constant, var
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import accesses, arrays, statements
from tf_stitch.lowering.loads_before_dependencies import loads_before_dependencies

F32 = DType.F32
THREADS, ROWS = 32, 8
THREAD = var(Var(k.THREAD, THREADS))
STEP = Var("step", ROWS)
LANE = Var("lane", 4)
AWAIT = k.AwaitDependencies()


def program(*body: k.Stmt) -> k.Program:
    found = k.Program((k.Buffer("x", F32, ROWS, k.Mode.READ), k.Buffer("w", F32, ROWS * 4 * THREADS, k.Mode.READ),
                       k.Buffer("bias", F32, 4 * THREADS, k.Mode.READ),
                       k.Buffer("y", F32, 4 * THREADS, k.Mode.WRITE)), 1, THREADS, body)  # fmt: skip
    verify_program(found)
    return found


def matvec(column: Index = THREAD * 4) -> tuple[k.Stmt, ...]:
    """Threads own four columns each: the sum over rows of x[row] w[row, column], and a bias."""
    weight = k.Element("row", var(LANE), F32)
    term = k.Apply(OpKind.MUL, (k.Local("v", F32), weight), F32)
    added = k.Apply(OpKind.ADD, (k.Element("acc", var(LANE), F32), k.Element("b", var(LANE), F32)), F32)
    return (
        k.Array("acc", F32, 4, init=0.0),
        k.For(STEP, (k.Let("v", k.Load("x", var(STEP), F32)), k.Array("row", F32, 4),
                     k.LoadVector("row", constant(0), "w", var(STEP) * (4 * THREADS) + column, 4),
                     k.For(LANE, (k.SetElement("acc", var(LANE), term, OpKind.SUM),), k.Loop.UNROLL)), k.Loop.SERIAL),
        k.Array("b", F32, 4), k.LoadVector("b", constant(0), "bias", column, 4),
        k.For(LANE, (k.SetElement("acc", var(LANE), added),), k.Loop.UNROLL),
        k.StoreVector("y", column, "acc", 4))  # fmt: skip


def moved(body: Sequence[k.Stmt], room: int = 96, unwritten: Sequence[str] = ("w", "bias")) -> k.Program:
    after = loads_before_dependencies(program(*body), unwritten, room)
    verify_program(after)
    return after


@pytest.mark.parametrize("room", [4, 12, 32, 36])
def test_loops_find_what_their_first_iterations_would_load(room: int, golden: Callable[[str, str], None]) -> None:
    golden(f"loads_before_dependencies_{room}", format_program(moved(matvec(), room)))


@pytest.mark.parametrize("room", [0, 3])
def test_less_than_a_vector_is_not_worth_it(room: int) -> None:
    assert moved(matvec(), room) == program(*matvec())


def test_only_what_nobody_writes_is_read_before() -> None:
    assert read_before(moved(matvec())) == {"w", "bias"}
    assert read_before(moved(matvec(), unwritten=["bias"])) == {"bias"}
    assert moved(matvec(), unwritten=[]) == program(*matvec())


def test_each_element_is_read_once() -> None:
    before, after = program(*matvec()), moved(matvec(), 16)
    count = {p: sum(s.var.extent for s in statements(p.body) if isinstance(s, k.For)
                    and any(a.buffer == "w" for a in accesses(s.body))) for p in (before, after)}  # fmt: skip
    assert count == {before: ROWS, after: ROWS}


def test_loads_leave_a_guard_if_they_are_inside_their_buffer() -> None:
    half = k.InRange(THREAD, 0, 16)
    column = Var("column", THREADS)
    clamped = k.If(half, (k.LetIndex(column, THREAD, THREADS - 1), *matvec(var(column) * 4)))
    after = moved([clamped])
    assert read_before(after) == {"w", "bias"}
    beyond = k.If(half, matvec(THREAD * 8))
    assert moved([beyond]) == program(beyond)


def test_indices_move_once() -> None:
    column = Var("column", THREADS)
    after = moved([k.LetIndex(column, THREAD, None), *matvec(var(column) * 4)])
    assert [s.var for s in statements(after.body) if isinstance(s, k.LetIndex)].count(column) == 1
    assert after.body.index(AWAIT) > 0


def test_loaded_indices_stay() -> None:
    """A row that a table tells: the table may be written, the row is not known before."""
    row = Var("at", 4)
    loaded = k.LetIndex(row, k.Load("x", THREAD * 0, F32), 3)
    after = moved([loaded, *matvec(var(row) * 4)])
    assert read_before(after) == frozenset()


@pytest.mark.parametrize(("dtype", "registers"), [(DType.BF16, 2), (DType.F16, 2), (DType.F8_E5M2, 1), (F32, 4)])
def test_vectors_of_halves_stay_packed(dtype: DType, registers: int, golden: Callable[[str, str], None]) -> None:
    """As they lie in memory: with the same room twice as many iterations are read before."""
    read = k.Buffer("w", dtype, ROWS * 4 * THREADS, k.Mode.READ)
    given = program(*matvec())
    given = replace(given, buffers=tuple(read if b.name == "w" else b for b in given.buffers))
    after = loads_before_dependencies(given, ["w"], 4 * registers)
    verify_program(after)
    kept, = (a for a in arrays(after.body) if a.name == "row_ahead")
    assert (kept.packed, kept.size, kept.nbytes) == (dtype is not F32, 4 * 4, 4 * 4 * registers)
    if dtype is DType.BF16:
        golden("loads_before_dependencies_packed", format_program(after))


def test_unrolled_loops_take_what_loops_over_terms_leave() -> None:
    """As of a norm, whose threads have a few accesses of a row each."""
    item = Var("item", 2)
    index = var(item) * 32 + THREAD
    scaled = k.For(item, (k.Let("g", k.Load("bias", index, F32)), k.Store("y", index, k.Local("g", F32))),
                   k.Loop.UNROLL)
    assert read_before(moved([scaled], 4)) == frozenset(), "less than a vector"
    wide = k.For(item, (k.Array("g", F32, 2), k.LoadVector("g", constant(0), "bias", index * 2 % 64, 2),
                        k.StoreVector("y", index * 2 % 64, "g", 2)), k.Loop.UNROLL)
    after = moved([wide], 4)
    assert read_before(after) == {"bias"}
    assert not any(a.buffer == "bias" for a in accesses(after.body[after.body.index(AWAIT):]))
    both = moved([wide, *matvec()], 4 * ROWS + 4)
    kept = {a.name: a.size for a in arrays(both.body[:both.body.index(AWAIT)])}
    assert kept == {"b": 4, "row_ahead": 4 * ROWS}


def test_programs_that_share_launches_by_loops_stay() -> None:
    looped = program(k.GridLoop(1, matvec()))
    assert loads_before_dependencies(looped, ["w", "bias"], 96) is looped
