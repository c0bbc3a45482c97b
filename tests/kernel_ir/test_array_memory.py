"""Arrays share memory where a barrier stands between their uses, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import Life, array_lives, place_arrays
from tf_stitch.kernel_ir.cost import requested_bytes, shared_bytes
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import arrays

THREADS = 64
T = var(Var(k.THREAD, THREADS))
MIRRORED = T * -1 + (THREADS - 1)
X = k.Buffer("x", DType.F32, THREADS, k.Mode.READ)
Y = k.Buffer("y", DType.F32, THREADS, k.Mode.WRITE)
SYNCHRONIZING = (k.Barrier(), k.AllReduce((("sum", OpKind.SUM),), THREADS))


def shared(name: str, dtype: DType = DType.F32) -> k.Array:
    return k.Array(name, dtype, THREADS, k.Space.SHARED)


def fill(name: str, value: k.Expr) -> k.Stmt:
    return k.SetElement(name, T, value)


def mirrored(name: str) -> k.Expr:
    return k.Element(name, MIRRORED, DType.F32)


def program(*body: k.Stmt, threads: int = THREADS) -> k.Program:
    return k.Program((X, Y), 1, threads, (k.Accumulator("sum", DType.F32, 0), *body), warp=32)


def handed_on(*between: k.Stmt, at: Index = T) -> k.Program:
    """x goes mirrored into a, a mirrored into b, b mirrored to y; `between` separates b's writing from a's reading."""
    return program(shared("a"), shared("b"), fill("a", k.Load("x", at, DType.F32)), k.Barrier(),
                   k.Let("v", mirrored("a")), *between, fill("b", k.Local("v", DType.F32)), k.Barrier(),
                   k.Store("y", T, mirrored("b")))


def offsets(p: k.Program) -> list[int | None]:
    return [a.offset for a in arrays(p.body)]


def run(p: k.Program) -> np.ndarray:
    memory = {"x": np.arange(THREADS, dtype=np.float32), "y": np.zeros(THREADS, np.float32)}
    interpret_program(p, memory)
    return memory["y"]


@pytest.mark.parametrize("synchronizing", SYNCHRONIZING)
def test_an_array_takes_the_memory_of_a_dead_one(synchronizing: k.Stmt) -> None:
    placed = place_arrays(handed_on(synchronizing))
    verify_program(placed)
    assert offsets(placed) == [0, 0]
    assert (shared_bytes(placed), requested_bytes(placed)) == (4 * THREADS, 8 * THREADS)
    np.testing.assert_array_equal(run(placed), np.arange(THREADS))


@pytest.mark.parametrize("between", [(), (k.AllReduce((("sum", OpKind.SUM),), 32),)], ids=["nothing", "warps wait"])
def test_without_a_barrier_nothing_is_shared(between: tuple[k.Stmt, ...]) -> None:
    placed = place_arrays(handed_on(*between))
    verify_program(placed)
    assert offsets(placed) == [0, 4 * THREADS]


def test_memory_shared_without_a_barrier_is_refused_and_races() -> None:
    apart = handed_on()
    together = replace(apart, body=tuple(replace(s, offset=0) if isinstance(s, k.Array) else s for s in apart.body))
    with pytest.raises(VerifyError, match="a and b share memory"):
        verify_program(together)
    # Threads of the interpreter run in lockstep: it is the reading by another thread that it tells.
    with pytest.raises(VerifyError, match="another reads with no barrier"):
        run(together)


def test_what_was_overwritten_cannot_be_read() -> None:
    placed = place_arrays(handed_on(k.Barrier()))
    late = replace(placed, body=(*placed.body, k.Barrier(), k.Store("y", T, mirrored("a"))))
    with pytest.raises(VerifyError, match="share memory"):
        verify_program(late)
    with pytest.raises(VerifyError, match="before it is written"):
        run(late)


def test_a_warp_s_own_reduction_is_no_barrier() -> None:
    """How many threads reduce by shuffles is the device's."""
    whole = handed_on(k.AllReduce((("sum", OpKind.SUM),), 64))
    assert offsets(place_arrays(replace(whole, warp=32))) == [0, 0]
    assert offsets(place_arrays(replace(whole, warp=64))) == [0, 4 * THREADS]


def test_what_is_carried_to_the_next_turn_shares_nothing() -> None:
    def places(carried: bool) -> list[int | None]:
        first = replace(shared("a"), carried=carried)
        body = (first, fill("a", k.Literal(1.0, DType.F32)), k.Barrier(), shared("b"),
                fill("b", k.Literal(2.0, DType.F32)), k.Barrier())
        return offsets(place_arrays(k.Program((), 1, THREADS, body)))

    assert places(carried=False) == [0, 0]
    assert places(carried=True) == [0, 4 * THREADS]


def test_what_others_send_to_shares_nothing() -> None:
    """They may be ahead of this block by a barrier that is its own."""
    def places(received: bool) -> list[int | None]:
        parts = replace(shared("parts"), received=received)
        body = (shared("a"), fill("a", k.Literal(1.0, DType.F32)), k.Barrier(), k.ClusterStarted(), parts,
                k.Send("parts", T, k.Literal(2.0, DType.F32), Index((), 0)), k.ClusterBarrier(),
                k.Let("u", mirrored("parts")))
        return offsets(place_arrays(k.Program((), 2, THREADS, body, cluster=2)))

    assert places(received=False) == [0, 0]
    assert places(received=True) == [0, 4 * THREADS]


def test_wide_arrays_take_the_memory_of_several() -> None:
    body = (shared("a"), shared("b"), shared("wide", DType.F64), fill("a", k.Load("x", T, DType.F32)),
            fill("b", k.Load("x", T, DType.F32)), k.Barrier(), k.Let("u", mirrored("a")), k.Let("v", mirrored("b")),
            k.Barrier(), fill("wide", k.Literal(1.0, DType.F64)), k.Barrier(),
            k.Let("w", k.Element("wide", MIRRORED, DType.F64)), k.Store("y", T, k.Local("v", DType.F32)))
    placed = place_arrays(program(*body))
    verify_program(placed)
    assert offsets(placed) == [0, 4 * THREADS, 0]
    run(placed)


def test_a_loop_uses_an_array_until_it_ends() -> None:
    """What the loop reads is read again in its next turn, behind any barrier inside it."""
    i = Var("i", 3)
    loop = k.For(i, (k.Let("u", mirrored("a")), k.Barrier(), k.Let("w", k.Local("u", DType.F32)), k.Barrier()))
    p = program(shared("a"), shared("b"), fill("a", k.Load("x", T, DType.F32)), k.Barrier(), loop,
                fill("b", k.Load("x", T, DType.F32)))
    assert array_lives(p) == {"a": Life(0, 3), "b": Life(3, 3)}
    assert offsets(place_arrays(p)) == [0, 4 * THREADS], "no barrier stands between the last turn's end and b"


def test_a_barrier_that_may_not_be_reached_separates_nothing() -> None:
    maybe = k.For(Var("i", 2), (k.Barrier(),), limit=var(Var(k.BLOCK, 1)))
    assert offsets(place_arrays(handed_on(maybe))) == [0, 4 * THREADS]


def test_statements_of_a_cpu_follow_each_other() -> None:
    i = Var("i", 8)
    here, out = var(i), k.Buffer("y", DType.F32, 8, k.Mode.WRITE)

    def copy(source: k.Expr, target: str) -> k.Stmt:
        return k.For(i, (k.SetElement(target, here, source),), k.Loop.SIMD)

    names = ("a", "b", "c")
    body = [k.Array(name, DType.F32, 8) for name in names]
    p = k.Program((replace(X, size=8), out), 1, 1, (
        *body, copy(k.Load("x", here, DType.F32), "a"), copy(k.Element("a", here * -1 + 7, DType.F32), "b"),
        copy(k.Element("b", here, DType.F32), "c"), k.For(i, (k.Store("y", here, k.Element("c", here, DType.F32)),))))
    placed = place_arrays(p)
    verify_program(placed)
    assert offsets(placed) == [0, 64, 0], "a and b are alive together, a and c are not"
    memory = {"x": np.arange(8, dtype=np.float32), "y": np.zeros(8, np.float32)}
    interpret_program(placed, memory)
    np.testing.assert_array_equal(memory["y"], memory["x"][::-1])
    one_place = (replace(s, offset=0) if isinstance(s, k.Array) else s for s in p.body)
    with pytest.raises(VerifyError, match="before it is written"):
        interpret_program(replace(p, body=tuple(one_place)), memory)
    mixed = replace(p, body=(replace(body[0], dtype=DType.I32), *p.body[1:]))
    assert place_arrays(mixed) is mixed, "C forbids one memory for two types"
