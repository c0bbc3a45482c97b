"""The kernel interpreter runs right programs and refuses wrong ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.kernel_ir import interpreted_values
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, var
from tf_stitch.kernel_ir.interpreter import KernelFailure, interpret_program
from tf_stitch.kernel_ir.verifier import verify_program

THREADS = 4
T = var(Var(k.THREAD, THREADS))
X = k.Buffer("x", DType.F32, 8, k.Mode.READ)
Y = k.Buffer("y", DType.F32, 8, k.Mode.WRITE)


def block(grid: int) -> Index:
    return var(Var(k.BLOCK, grid))


def load(index: Index) -> k.Expr:
    return k.Load("x", index, DType.F32)


def number(value: float) -> k.Expr:
    return k.Literal(value, DType.F32)


def run(*body: k.Stmt, grid: int = 2, threads: int = THREADS, buffers: tuple[k.Buffer, ...] = (X, Y)) -> np.ndarray:
    program = k.Program(buffers, grid, threads, body)
    verify_program(program)
    return run_unverified(program)


def run_unverified(program: k.Program) -> np.ndarray:
    memory = {b.name: np.arange(b.size, dtype=np.float32) for b in program.buffers}
    interpret_program(program, memory)
    return memory["y"]


def reversed_through_shared(*between: k.Stmt) -> tuple[k.Stmt, ...]:
    """Every thread writes a shared element and reads its mirror image."""
    shared = k.Array("s", DType.F32, THREADS, k.Space.SHARED)
    here = block(2) * THREADS + T
    mirrored = k.Element("s", T * -1 + (THREADS - 1), DType.F32)
    return (shared, k.SetElement("s", T, load(here)), *between, k.Store("y", here, mirrored))


def test_shared_memory_and_barrier() -> None:
    np.testing.assert_array_equal(run(*reversed_through_shared(k.Barrier())), [3, 2, 1, 0, 7, 6, 5, 4])


def test_missing_barrier_is_a_race() -> None:
    with pytest.raises(VerifyError, match="no barrier between"):
        run(*reversed_through_shared())


def test_a_write_after_read_without_barrier_is_a_race() -> None:
    again = k.SetElement("s", T, number(0))
    with pytest.raises(VerifyError, match="another reads with no barrier between"):
        run(*reversed_through_shared(k.Barrier()), again)


def test_out_of_bounds_read() -> None:
    with pytest.raises(VerifyError, match=r"x\[8\] is read"):
        run(k.Store("y", block(2) * THREADS + T, load(block(2) * THREADS + T + 1)))


def test_out_of_bounds_write() -> None:
    with pytest.raises(VerifyError, match=r"y\[8\] is written"):
        run(k.Store("y", block(2) * THREADS + T + 1, number(1)))


def test_accesses_in_front_of_the_first_element() -> None:
    """By one of the threads, which NumPy would take for the last element."""
    here = block(2) * THREADS + T
    for stmt, said in ((k.Store("y", here, load(here + -1)), r"x\[-1\] is read"),
                       (k.Store("y", here + -1, number(1)), r"y\[-1\] is written")):
        with pytest.raises(VerifyError, match=said):
            run_unverified(k.Program((X, Y), 2, THREADS, (stmt,)))


def test_array_out_of_bounds() -> None:
    with pytest.raises(VerifyError, match=r"a\[4\] is written; it has 4"):
        run(k.Array("a", DType.F32, 4), k.SetElement("a", T + 1, number(1)))


def test_array_read_before_it_is_written() -> None:
    with pytest.raises(VerifyError, match="read before it is written"):
        run(k.Array("a", DType.F32, 4), k.Store("y", block(2) * THREADS + T, k.Element("a", T, DType.F32)))


def test_divergent_barrier() -> None:
    body = (k.If(k.InRange(T, 0, 2), (k.Barrier(),)),)
    with pytest.raises(VerifyError, match="threads part"):
        run(*body)
    with pytest.raises(VerifyError, match=r"barrier|threads"):
        run_unverified(k.Program((X, Y), 1, THREADS, body))


def test_divergent_reduction() -> None:
    body = (k.Accumulator("a", DType.F32, 0), k.If(k.InRange(T, 0, 2), (k.AllReduce((("a", OpKind.SUM),), 4),)))
    with pytest.raises(VerifyError):
        run_unverified(k.Program((X, Y), 1, THREADS, body))


def test_two_blocks_that_write_one_element() -> None:
    with pytest.raises(VerifyError, match="blocks 0 and 1 both write"):
        run(k.Store("y", T, load(block(2) * THREADS + T)))


def test_two_blocks_may_write_the_same_value() -> None:
    run(k.Store("y", T, number(1)))


def test_misaligned_vector() -> None:
    body = (k.Array("v", DType.F32, 4), k.LoadVector("v", constant(0), "x", block(2) * 4 + 1, 4))
    with pytest.raises(VerifyError, match="multiple"):
        run(*body, threads=1)
    with pytest.raises(VerifyError, match="a vector of 4 starts at element 1"):
        run_unverified(k.Program((X, Y), 1, 1, body))


def test_reading_what_is_written_only() -> None:
    body = (k.Store("y", T, k.Load("y", T, DType.F32)),)
    with pytest.raises(VerifyError, match="declared as write"):
        run(*body)
    with pytest.raises(VerifyError, match="written only"):
        run_unverified(k.Program((X, Y), 1, THREADS, body))


def test_failure_is_reported() -> None:
    with pytest.raises(KernelFailure):
        run(k.Fail(k.InRange(T, 0, 3)))


def test_all_reduce_in_groups() -> None:
    here = block(2) * THREADS + T
    got = run(k.Accumulator("a", DType.F32, 0), k.Update("a", OpKind.SUM, load(here)),
              k.AllReduce((("a", OpKind.SUM),), 2), k.Store("y", here, k.Local("a", DType.F32)))
    np.testing.assert_array_equal(got, [1, 1, 5, 5, 9, 9, 13, 13])


@pytest.mark.parametrize(("kind", "want"), [(OpKind.ARGMAX, 3), (OpKind.ARGMIN, 0)])
def test_arg_all_reduce(kind: OpKind, want: int) -> None:
    start = -np.inf if kind is OpKind.ARGMAX else np.inf
    got = run(k.Accumulator("a", DType.F32, start), k.Accumulator("at", DType.I32, 0),
              k.ArgUpdate("a", "at", kind, load(block(2) * THREADS + T), T),
              k.ArgAllReduce("a", "at", kind, 4, DType.F32),
              k.Store("y", block(2) * THREADS + T, k.Local("at", DType.I32)))
    np.testing.assert_array_equal(got, [want] * 8)


# Grid loops of other numbers of blocks than the grid's: 4 blocks hand each other's values on.
Z = k.Buffer("z", DType.F32, 8, k.Mode.SCRATCH)
WRITES = k.GridLoop(2, (k.Store("z", block(2) * THREADS + T, load(block(2) * THREADS + T)),))
MIRROR = k.GridLoop(4, (k.If(k.InRange(T, 0, 2), (
    k.Store("y", block(4) * 2 + T, k.Load("z", (block(4) * 2 + T) * -1 + 7, DType.F32)),)),), backwards=True)


def test_grid_barrier() -> None:
    got = run(WRITES, k.GridBarrier(), MIRROR, grid=1, buffers=(X, Y, Z))
    np.testing.assert_array_equal(got, np.arange(8)[::-1])


def test_missing_grid_barrier_is_a_race() -> None:
    body = (WRITES, MIRROR, k.GridBarrier())
    with pytest.raises(VerifyError, match="no grid barrier after its writing"):
        run(*body, grid=1, buffers=(X, Y, Z))
    with pytest.raises(VerifyError, match="no grid barrier after its writing"):
        run_unverified(k.Program((X, Y, Z), 1, THREADS, body))


@pytest.mark.parametrize("hidden", [
    k.If(k.InRange(block(1), 0, 1), (k.GridBarrier(),)), k.For(Var("i", 2), (k.GridBarrier(),)),
    k.GridLoop(2, (k.GridBarrier(),))], ids=lambda stmt: type(stmt).__name__)
def test_a_grid_barrier_that_a_thread_may_miss(hidden: k.Stmt) -> None:
    body = (WRITES, k.GridBarrier(), hidden, MIRROR)
    with pytest.raises(VerifyError, match=r"beside grid loops|inside a grid loop"):
        run(*body, grid=1, buffers=(X, Y, Z))
    with pytest.raises(VerifyError, match=r"beside grid loops|no rule for GridBarrier"):
        run_unverified(k.Program((X, Y, Z), 1, THREADS, body))


def test_buffer_of_another_size() -> None:
    with pytest.raises(VerifyError, match="has"):
        interpret_program(k.Program((X,), 1, 1, ()), {"x": np.zeros(3, np.float32)})


def test_threads_compute_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy is called once for all threads of a block; where no thread is, nothing is computed."""
    calls: list[tuple[int, ...]] = []

    def add(attrs: object, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        calls.append(a.shape)
        return a + b

    monkeypatch.setitem(interpreted_values.OP_TABLE, OpKind.ADD, replace(OP_TABLE[OpKind.ADD], reference=add))
    total = k.Apply(OpKind.ADD, (load(T), number(1)), DType.F32)
    nobody = k.If(k.InRange(T, THREADS, THREADS + 1), (k.Let("v", total), k.Update("w", OpKind.SUM, total)))
    got = run(k.Accumulator("w", DType.F32, 0), nobody, k.Store("y", block(2) * THREADS + T, total))
    np.testing.assert_array_equal(got, [1, 2, 3, 4] * 2)
    assert calls == [(THREADS,)] * 2


# The verifier alone.
GOOD = k.Program((X, Y), 2, THREADS,
                 (k.Let("v", load(T)), k.Store("y", block(2) * THREADS + T, k.Local("v", DType.F32))))


def test_verifier_accepts_a_good_program() -> None:
    verify_program(GOOD)


@pytest.mark.parametrize(("body", "message"), [
    ((k.Store("y", T, k.Local("v", DType.F32)),), "v is not declared"),
    ((k.Store("z", T, number(0)),), "z is not declared"),
    ((k.Store("x", T, number(0)),), "declared as read"),
    ((k.Store("y", var(Var("i", 3)), number(0)),), "index i is not declared"),
    ((k.Store("y", var(Var(k.THREAD, 5)), number(0)),), "thread is not declared here with 5"),
    ((k.Let("v", number(0)), k.Update("v", OpKind.SUM, number(1))), "no accumulator"),
    ((k.If(k.InRange(T, 0, 1), (k.Let("v", number(0)),)), k.Store("y", T, k.Local("v", DType.F32))),
     "v is not declared"),
    ((k.For(Var("i", 2), (k.Array("a", DType.F32, 2),)), k.SetElement("a", T, number(0))), "a is not declared"),
    ((k.Array("a", DType.F32, 0),), "empty"),
    ((k.Array("a", DType.F32, 2), k.LoadVector("a", constant(0), "x", T * 4, 4)), "cannot hold"),
    ((k.If(k.InRange(T, 0, 1), (k.Array("a", DType.F32, 2, k.Space.SHARED),)),), "threads part"),
    ((k.LetIndex(Var("i", 3), T, 3),), "may pass its extent"),
    ((k.Accumulator("a", DType.F32, 0), k.AllReduce((("a", OpKind.SUM),), 3)), "a reduction over 3"),
])
def test_verifier_refuses(body: tuple[k.Stmt, ...], message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify_program(replace(GOOD, body=body))
