"""What a program may do before the launches that it depends on have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.dependencies import awaits_itself, read_before
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.kernel_ir.verifier import verify_program

F32 = DType.F32
THREAD = var(Var(k.THREAD, 32))
AWAIT = k.AwaitDependencies()


def load(name: str, buffer: str) -> k.Let:
    return k.Let(name, k.Load(buffer, THREAD, F32))


STORE = k.Store("y", THREAD, k.Local("a", F32))


def program(*body: k.Stmt, mode: k.Mode = k.Mode.READ, shared: bool = False) -> k.Program:
    return k.Program((k.Buffer("w", F32, 32, mode, shared=shared), k.Buffer("x", F32, 32, k.Mode.READ),
                      k.Buffer("y", F32, 32, k.Mode.WRITE)), 1, 32, body)  # fmt: skip


def test_what_is_read_before() -> None:
    early = program(load("a", "w"), AWAIT, load("b", "x"), STORE)
    verify_program(early)
    assert awaits_itself(early)
    assert read_before(early) == {"w"}
    late = program(load("a", "w"), STORE)
    verify_program(late)
    assert not awaits_itself(late)
    assert read_before(late) == frozenset()


@pytest.mark.parametrize("wrong", [
    program(load("a", "w"), STORE, AWAIT),
    program(load("a", "w"), AWAIT, STORE, mode=k.Mode.UPDATE),
    program(load("a", "w"), AWAIT, STORE, shared=True)],
    ids=["a result", "an updated buffer", "shared memory"])  # fmt: skip
def test_what_others_write_is_not_touched_before(wrong: k.Program) -> None:
    with pytest.raises(VerifyError, match="touched before dependencies have ended"):
        verify_program(wrong)


@pytest.mark.parametrize("body", [
    (load("a", "w"), AWAIT, STORE, AWAIT),
    (load("a", "w"), k.If(k.InRange(THREAD, 0, 16), (AWAIT,)), STORE)], ids=["twice", "by some threads"])  # fmt: skip
def test_all_threads_await_them_once(body: tuple[k.Stmt, ...]) -> None:
    with pytest.raises(VerifyError, match=r"not awaited once|AwaitDependencies inside"):
        verify_program(program(*body))


def test_no_grid_loop_awaits_them() -> None:
    looped = program(k.GridLoop(1, (load("a", "w"), AWAIT, STORE)))
    with pytest.raises(VerifyError, match="not awaited once"):
        verify_program(looped)
    with pytest.raises(VerifyError):
        verify_program(replace(looped, body=(AWAIT, k.GridLoop(1, (load("a", "w"), STORE)))))
