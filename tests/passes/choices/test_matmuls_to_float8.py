"""Which matmuls a GPU multiplies in float8."""

from __future__ import annotations

import pytest

from tests.differential.runner import compiled, region
from tests.passes.test_matmuls_to_float8 import dequantised
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.matmuls_to_float8 import matmuls_of_float8
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.targets.target import LARGE

B = Builder()
OLDER = gpu_spec(H200.profile, "80")


def chosen(*outputs: Node, device: DeviceSpec = H200, aligned: bool = True) -> set[Node]:
    times = PatternCompiler(device, aligned, LARGE)
    context = PassContext(device, times, times.libraries, Reuse.MERGED, aligned)
    return matmuls_of_float8(region("g", list(outputs)), context)


def matmul(m: int = 4096, k: int = 4096, n: int = 4096, by_terms: bool = True, name: str = "x") -> Node:
    w = dequantised("w", (n, k) if by_terms else (k, n))
    return B.dot(dequantised(name, (m, k)), w, transpose_b=by_terms)


@pytest.mark.parametrize("by_terms", [True, False])
def test_large_ones_are_even_with_a_transposed_copy(by_terms: bool) -> None:
    dot = matmul(by_terms=by_terms)
    assert chosen(dot) == {dot}


def test_small_ones_are_not() -> None:
    assert not chosen(matmul(256, 256, 256))


@pytest.mark.parametrize("sizes", [(4095, 4096, 4096), (4096, 4104, 4096), (4096, 4096, 4095)])
def test_those_of_odd_sizes_have_no_kernel(sizes: tuple[int, int, int]) -> None:
    assert not chosen(matmul(*sizes))


def test_only_where_there_are_tensor_cores_for_it_and_memory_is_aligned() -> None:
    dot = matmul()
    assert not chosen(dot, device=OLDER)
    assert not chosen(dot, aligned=False)
    assert chosen(dot, device=gpu_spec(H200.profile, "89")) == {dot}
    assert not chosen(dot, device=CPU)


def test_what_others_read_as_halves_costs_a_float8_beside_it() -> None:
    """At a size at which that alone makes the difference."""
    sizes = next((n, 4096, 4096) for n in range(64, 4096, 16) if chosen(matmul(n, 4096, 4096)))
    dot = matmul(*sizes)
    assert chosen(dot)
    assert not chosen(dot, *(B.exp(o) for o in dot.operands))


def test_the_plan_has_calls_of_float8_and_no_halves() -> None:
    scale = B.cast(B.input("s:0", DType.F32, ()), DType.BF16)
    x = B.cast(B.div(B.input("x:0", DType.BF16, (4096, 4096)), B.broadcast(scale, (4096, 4096))), DType.F8_E4M3FN)
    half = B.mul(B.cast(x, DType.BF16), B.broadcast(scale, (4096, 4096)))
    built = compiled(region("g", [B.dot(half, dequantised("w", (4096, 4096)), transpose_b=True)]), H200)
    assert [str(bound.call) for bound in built.calls] == [
        "gemm float8_e4m3fn x float8_e4m3fn -> bfloat16 [4096,4096]x[4096,4096]"]
    written = [n.type for kernel in built.kernels for n in kernel.schedule.pattern.outputs]
    assert {t.dtype for t in written if t.numel > 1} == {DType.F8_E4M3FN}
    unaligned = compiled(region("g", [matmul()]), H200, aligned=False)
    assert all("float8" not in str(bound.call) for bound in unaligned.calls)
