"""Which values of half types are only moved, and that kernels move them as they are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import compiled, region, run_host
from tf_stitch.device.spec import CPU
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.kernel_ir.moved_values import moved_values

AT, F32 = var(Var("i", 4)), DType.F32
BUFFERS = {"a": DType.F16, "b": DType.F16, "c": DType.BF16, "f": DType.F32}


def load(buffer: str) -> k.Load:
    return k.Load(buffer, AT, F32)


def local(name: str) -> k.Local:
    return k.Local(name, F32)


def moved(*body: k.Stmt) -> set[str]:
    return set(moved_values(body, BUFFERS).scalars)


def test_what_goes_from_memory_to_memory_is_moved() -> None:
    assert moved(k.Let("x", load("a")), k.Store("b", AT, local("x"))) == {"x"}
    is_first = k.InRange(AT, 0, 2)
    either = k.If(is_first, (k.Let("x", load("a")), k.Assign("y", local("x"))), (k.Assign("y", k.Literal(2.0, F32)),))
    assert moved(k.Accumulator("y", F32, 0.0), either, k.Store("b", AT, local("y"))) == {"x", "y"}
    choice = k.Apply(OpKind.SELECT, (is_first, local("x"), k.Literal(1.0, F32)), F32)
    assert moved(k.Let("x", load("a")), k.Let("y", choice), k.Store("b", AT, local("y"))) == {"x", "y"}


@pytest.mark.parametrize("use", [
    k.Store("b", AT, k.Apply(OpKind.NEG, (local("x"),), F32)), k.Store("c", AT, local("x")),
    k.Store("f", AT, local("x")), k.SetElement("t", AT, local("x")), k.Update("s", OpKind.SUM, local("x")),
    k.Let("z", k.Apply(OpKind.ADD, (local("x"), load("a")), F32)),
    k.If(k.Apply(OpKind.LESS, (local("x"), load("b")), DType.BOOL), ())], ids=lambda use: type(use).__name__)
def test_what_is_computed_with_is_not(use: k.Stmt) -> None:
    """Nor what becomes of another type, or goes where the kernel may compute with it."""
    assert not moved(k.Let("x", load("a")), k.Store("b", AT, local("x")), use)


@pytest.mark.parametrize("other", [load("c"), load("f"), k.Apply(OpKind.NEG, (load("a"),), F32)])
def test_a_scalar_that_is_given_something_else_is_not(other: k.Expr) -> None:
    body = (k.Accumulator("y", F32, 0.0), k.Let("x", load("a")), k.Assign("y", local("x")),
            k.Assign("y", other), k.Store("b", AT, local("y")))
    assert not moved(*body)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_every_half_is_moved_as_it_is(dtype: DType) -> None:
    """All bits, those of a NaN, too."""
    b = Builder()
    x = b.input("x:0", dtype, (256, 256))
    flag = b.input("flag:0", DType.BOOL, (256, 1))
    graph = region("moved", [b.concat([x, x], 1), b.select(flag, x, b.constant(1.0, dtype))])
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    flags = np.arange(256).reshape(256, 1) % 2 == 0
    both, chosen = run_host(graph, compiled(graph, CPU), {
        "x:0": bits.view(dtype.numpy), "flag:0": flags}).values()
    np.testing.assert_array_equal(both.view(np.uint16), np.concatenate([bits, bits], 1))
    one = np.ones((), dtype.numpy).view(np.uint16)
    np.testing.assert_array_equal(chosen.view(np.uint16), np.where(flags, bits, one))
