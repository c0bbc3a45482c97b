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
