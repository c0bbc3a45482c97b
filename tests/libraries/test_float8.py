"""Matmuls of float8 by a library: the call of a node, its words, its place in a plan, and what it computes by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import compiled, region
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.libraries.float8 import FLOAT8, Float8Gemm
from tf_stitch.libraries.registry import LIBRARIES, code_of, library_of

B = Builder()
E4M3, E5M2 = DType.F8_E4M3FN, DType.F8_E5M2


def matmul(dtype: DType = DType.BF16, m: int = 32, n: int = 48, k: int = 64) -> Node:
    x, w = B.input("x:0", E5M2, (m, k)), B.input("w:0", E4M3, (n, k))
    return B.float8_dot(x, w, B.input("s:0", DType.F32, ()), B.input("t:0", DType.F32, ()), dtype)


def test_words() -> None:
    node = matmul(DType.F16)
    assert library_of(node, LIBRARIES) is FLOAT8
    assert library_of(B.exp(node), LIBRARIES) is None
    assert FLOAT8.match([node, B.exp(node)]) is None
    fused = FLOAT8.match([node])
    assert fused is not None
    bound = FLOAT8.bind(fused, ())
    assert [argument for argument, _ in bound.arguments] == [*node.operands, node]
    call = bound.call
    assert call == Float8Gemm(DType.F16, E5M2, E4M3, 32, 48, 64) == call.at_hand()
    assert LIBRARIES[code_of(call)] is FLOAT8
    assert call.record.words(**call.members()) == [19, 24, 25, 32, 48, 64]
    assert call.operand_bytes() == [32 * 64, 48 * 64, 4, 4, 32 * 48 * 2]
    assert call.domain == (32, 48)
    assert not call.too_large()
    assert str(call) == "gemm float8_e5m2 x float8_e4m3fn -> float16 [32,64]x[48,64]"


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_reference_and_interpreter_agree(dtype: DType) -> None:
    node, rng = matmul(dtype), np.random.default_rng(0)
    values = {"x:0": rng.standard_normal((32, 64)).astype(E5M2.numpy),
              "w:0": rng.standard_normal((48, 64)).astype(E4M3.numpy), "s:0": np.float32(0.25), "t:0": np.float32(3)}
    want = interpret(region("g", [node]), values)["o0"].astype(np.float32)
    exact = values["x:0"].astype(np.float64) @ values["w:0"].astype(np.float64).T * 0.75
    out = np.empty((32, 48), dtype.numpy)
    Float8Gemm(dtype, E5M2, E4M3, 32, 48, 64).reference(
        [np.asarray(x).reshape(-1).view(np.uint8) for x in (*values.values(), out)])
    np.testing.assert_allclose(out.astype(np.float32), want, rtol=0.01, atol=0.01)
    np.testing.assert_allclose(out.astype(np.float64), exact, rtol=0.005, atol=0.01)


@pytest.mark.parametrize(("sizes", "measured"), [((4096, 3072, 768), 20.9), ((8192, 4096, 4096), 195.0),
                                                 ((4096, 768, 768), 10.9)])  # fmt: skip
def test_its_time_is_about_what_was_measured(sizes: tuple[int, int, int], measured: float) -> None:
    predicted = FLOAT8.measured_us(matmul(DType.BF16, *sizes), H200.profile)
    assert predicted == pytest.approx(measured, rel=0.25)


def test_it_is_a_call_of_its_own_on_a_gpu_alone() -> None:
    x = matmul()
    built = compiled(region("g", [B.exp(x)]), H200)
    [bound] = built.calls
    assert str(bound.call) == "gemm float8_e5m2 x float8_e4m3fn -> bfloat16 [32,64]x[48,64]"
    assert len(built.kernels) == 1
    with pytest.raises(ScheduleError, match="float8_dot"):
        compiled(region("g", [x]), CPU)


def test_it_reads_scales_and_matrices_that_kernels_make() -> None:
    """Even such as kernels would make in passing."""
    x = B.cast(B.input("x:0", DType.BF16, (32, 64)), E4M3)
    w = B.transpose(B.input("w:0", E4M3, (64, 48)), (1, 0))
    scale = B.cast(B.input("s:0", DType.BF16, ()), DType.F32)
    built = compiled(region("g", [B.float8_dot(x, w, scale, B.constant(1, DType.F32), DType.BF16)]), H200)
    [call] = built.calls
    written = {n for kernel in built.kernels for n in kernel.schedule.pattern.outputs}
    assert {argument for argument, _ in call.arguments[:4]} <= written
