"""Halves are computed in float32; what jumps (comparisons, floors, whether a number is finite) is told the half."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.runner import compiled, region, run_host, run_kernel_ir
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind

X = np.array([3, 300, 1.0009765625, 1e-4, -3, -300], np.float16)
Y = np.array([1 / 3, 300, 1.0009765625, 1e-4, 1 / 3, 300], np.float16)
"""Products that are 1, inf, 1.001953125 and 0 as halves, and not before they are rounded."""

JUMPS: dict[str, Callable[[Builder, Node, Node], Node]] = {
    "equal": lambda b, z, like: b.op(OpKind.EQUAL, z, like),
    "less": lambda b, z, like: b.op(OpKind.LESS, z, like),
    "finite": lambda b, z, like: b.op(OpKind.IS_FINITE, z),
    "floor": lambda b, z, like: b.op(OpKind.FLOOR, z),
    "ceil": lambda b, z, like: b.op(OpKind.CEIL, z),
    "sign": lambda b, z, like: b.op(OpKind.SIGN, z),
    "integer": lambda b, z, like: b.cast(z, DType.I32),
}


def expected(jump: str) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        z = X * Y  # a half
        return {"equal": z == z, "less": z < z, "finite": np.isfinite(z), "floor": np.floor(z), "ceil": np.ceil(z),
                "sign": np.sign(z), "integer": np.where(np.isinf(z), 0, z).astype(np.int32)}[jump]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_product_is_rounded_first(jump: str) -> None:
    b = Builder()
    with np.errstate(over="ignore"):
        rounded = X * Y
    z = b.mul(b.input("x", DType.F16, X.shape), b.input("y", DType.F16, Y.shape))
    graph = region("jump", [JUMPS[jump](b, z, b.input("z", DType.F16, rounded.shape))])
    values = {"x": X, "y": Y, "z": rounded}
    on_cpu, on_gpu = compiled(graph, CPU), compiled(graph, H200)
    finite = np.isfinite(rounded) if jump == "integer" else np.ones(X.shape, bool)  # infinities are the casts' own test
    for got in (run_kernel_ir(graph, on_cpu, values), run_kernel_ir(graph, on_gpu, values),
                run_host(graph, on_cpu, values)):
        np.testing.assert_array_equal(got["o0"][finite], expected(jump)[finite])


ROUND_TRIPS: dict[str, Callable[[Builder, Node, DType], Node]] = {
    "at once": lambda b, x, half: b.cast(b.cast(x, half), DType.F32),
    "of what is computed": lambda b, x, half: b.cast(b.cast(b.op(OpKind.NEG, x), half), DType.F32),
    "moved between": lambda b, x, half: b.cast(b.broadcast(b.reshape(b.cast(x, half), (1, 999)), (3, 999)), DType.F32),
    "before a sum": lambda b, x, half: b.sum(b.reshape(b.cast(b.cast(x, half), DType.F32), (999, 1)), [1]),
    "to the other half": lambda b, x, half: b.cast(b.cast(x, half), DType.F16 if half is DType.BF16 else DType.BF16),
}


@pytest.mark.parametrize("half", [DType.F16, DType.BF16])
@pytest.mark.parametrize("trip", ROUND_TRIPS)
def test_a_number_that_is_cast_to_a_half_and_back_is_rounded(trip: str, half: DType) -> None:
    """Keras rounds the bias of a layer of float8 so."""
    b = Builder()
    x = np.random.default_rng(0).normal(size=999).astype(np.float32)
    result = ROUND_TRIPS[trip](b, b.input("x", DType.F32, x.shape), half)
    graph = region("trip", [result])
    want = x.astype(half.numpy)
    want = (-want if trip == "of what is computed" else want).astype(result.type.dtype.numpy)
    assert (want.astype(np.float32) != x).any()
    on_cpu, on_gpu = compiled(graph, CPU), compiled(graph, H200)
    for got in (run_kernel_ir(graph, on_cpu, {"x": x}), run_kernel_ir(graph, on_gpu, {"x": x}),
                run_host(graph, on_cpu, {"x": x})):
        np.testing.assert_array_equal(got["o0"], np.broadcast_to(want, got["o0"].shape))
