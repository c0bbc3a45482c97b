"""A layer of float8 and its gradients, compiled for a GPU with its matmuls in float8: the kernels that quantise, move
and scale, and the calls, by their NumPy references, give what the graph gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import compiled, random_values, region, run_kernel_ir
from tests.support.numbers import set_numbers
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind

B = Builder()
E4M3, E5M2 = DType.F8_E4M3FN, DType.F8_E5M2


def quantised(name: str, shape: tuple[int, int], dtype: DType, half: DType) -> Node:
    """And dequantised, as Keras does: scales are variables."""
    x = B.input(f"{name}:0", half, shape)
    scale = B.cast(B.input(f"{name}_scale:0", DType.F32, ()), half)
    most = B.broadcast(B.constant(448, half), shape)
    clipped = B.op(OpKind.MINIMUM, B.div(x, B.broadcast(scale, shape)), most)
    clipped = B.op(OpKind.MAXIMUM, clipped, B.neg(most))
    return B.mul(B.cast(B.cast(clipped, dtype), half), B.broadcast(scale, shape))


@pytest.mark.parametrize("half", [DType.BF16, DType.F16])
@pytest.mark.parametrize("kept", [False, True])
def test_a_layer_and_its_gradients(kept: bool, half: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kept`: the halves are needed besides."""
    set_numbers(monkeypatch, H200, "choices", float8_us=-1e9)
    x, w = quantised("x", (32, 64), E4M3, half), quantised("w", (64, 48), E4M3, half)
    grad = quantised("g", (32, 48), E5M2, half)
    results = [B.op(OpKind.TANH, B.dot(x, w)), B.dot(grad, w, transpose_b=True),
               B.dot(x, grad, transpose_a=True)]
    graph = region("g", [*results, *((x, w, grad) if kept else ())])
    built = compiled(graph, H200)
    assert sum("float8" in str(bound.call) for bound in built.calls) == len(built.calls) == 3
    if not kept:
        written = [n.type for kernel in built.kernels for n in kernel.schedule.pattern.outputs if n.type.numel > 1]
        assert sum(t.dtype.is_float8 for t in written) == len(written) - 1, "all but the function of the first result"
    values = random_values(graph)
    values |= {name: np.float32(0.01) for name in values if "scale" in name}
    values |= {name: (v * 0.5).astype(v.dtype) for name, v in values.items() if "scale" not in name}
    want, got = interpret(graph, values), run_kernel_ir(graph, built, values)
    for i in range(len(want)):
        a, b = (v[f"o{i}"].astype(np.float64) for v in (got, want))
        np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02 * np.abs(b).max())
