"""Every op of the user's rounds by itself: no product and sum become one fma, in no kernel and on no device."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.differential.patterns import adam, gelu_tanh, layernorm
from tests.differential.runner import CPU, compiled, region, run_host
from tests.emit.ptx import ptx_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind

B = Builder()


def difference_of_squares(dtype: DType, size: int) -> TensorGraph:
    x, y = (B.input(f"{name}:0", dtype, (size,)) for name in "xy")
    return region("root", [B.op(OpKind.SQRT, B.sub(B.square(x), B.square(y)))])


def spread_of_rows(dtype: DType, rows: int, columns: int) -> TensorGraph:
    """sqrt(E[x^2] - E[x]^2)."""
    x = B.input("x:0", dtype, (rows, columns))
    count = B.constant(columns, dtype)
    mean, squares = (B.div(B.sum(v, [1]), count) for v in (x, B.square(x)))
    return region("spread", [B.op(OpKind.SQRT, B.sub(squares, B.square(mean)))])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_equal_squares_cancel(dtype: DType, size: int) -> None:
    x = np.random.default_rng(0).random(size).astype(dtype.numpy)
    graph = difference_of_squares(dtype, size)
    assert not run_host(graph, compiled(graph, CPU), {"x:0": x, "y:0": x.copy()})["o0"].any()


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_constant_rows_have_no_spread(dtype: DType, columns: int) -> None:
    """So many equal numbers have an exact sum, in any order: what rounds is the square, the same way twice."""
    row = np.random.default_rng(0).random((500, 1)).astype(dtype.numpy)
    graph = spread_of_rows(dtype, 500, columns)
    got = run_host(graph, compiled(graph, CPU), {"x:0": np.repeat(row, columns, 1)})["o0"]
    assert not got.any()


def scaled_softmax(rows: int, columns: int) -> TensorGraph:
    x = B.input("x:0", DType.F32, (rows, columns))
    y = B.mul(x, B.scalar_like(1e38, x))
    e = B.exp(B.sub(y, B.reduce(OpKind.MAX, y, [1], True)))
    return region("softmax", [B.div(e, B.sum(e, [1], True))])


def test_softmax_of_large_logits() -> None:
    x = np.random.default_rng(0).random((10, 100)).astype(np.float32) - np.float32(0.5)
    graph = scaled_softmax(10, 100)
    got = run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]
    np.testing.assert_array_equal(got, (x == x.max(1, keepdims=True)).astype(np.float32))


def of(shape: tuple[int, ...], *names: str) -> list[Node]:
    return [B.input(f"{name}:0", DType.F32, shape) for name in names]


WITHOUT_FMA = {"difference of squares": difference_of_squares(DType.F32, 1000),
               "float64": difference_of_squares(DType.F64, 1000), "spread": spread_of_rows(DType.F32, 64, 256)}
WITH_FUNCTIONS = {"adam": region("adam", *adam([(1 << 16,)])), "softmax": scaled_softmax(64, 256),
                  "gelu": region("gelu", [gelu_tanh(*of((64, 256), "x"))]),
                  "layernorm": region("layernorm", [layernorm(*of((64, 256), "x"), *of((256,), "gamma", "beta"))])}


@pytest.mark.parametrize("name", WITHOUT_FMA)
def test_no_fma_on_a_gpu(name: str) -> None:
    ptx = ptx_of(WITHOUT_FMA[name])
    assert re.search(r"\bmul\.rn\.f", ptx), "there are products"
    assert not re.search(r"\bfma\.", ptx)


@pytest.mark.parametrize("name", [*WITHOUT_FMA, *WITH_FUNCTIONS])
def test_nothing_is_left_to_fuse_on_a_gpu(name: str) -> None:
    """ptxas fuses products and sums, too; not those that say how they round (.rn)."""
    assert not re.search(r"\b(mul|add|sub)(\.ftz)?\.f(32|64)\b", ptx_of((WITHOUT_FMA | WITH_FUNCTIONS)[name]))
