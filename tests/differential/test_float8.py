"""Casts to and from float8: every level gives the bits that TensorFlow's own kernel gives on a CPU."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from tests.differential.gpu_run import run_gpu
from tests.differential.runner import CPU, H200, Array, compiled, region, run_host, run_kernel_ir
from tests.emit.ptx import ptx_of
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.runtime.device_run import gpu_is_here

B = Builder()
BACK = (DType.F16, DType.BF16, DType.F32, DType.F64, DType.I32, DType.I64, DType.BOOL)
FLOAT8 = (DType.F8_E4M3FN, DType.F8_E5M2)
HALVES = (DType.F16, DType.BF16)
ON_GPU = pytest.param("GPU", marks=[pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")])
LEVELS = ("tensor IR", "kernel IR", "C", "CUDA", ON_GPU)


def by_tensorflow(x: Array, target: DType) -> Array:
    return np.asarray(tf.raw_ops.Cast(x=tf.constant(x), DstT=tf.as_dtype(target.value)))


def run(level: str, graph: TensorGraph, x: Array) -> Array:
    values = {"x:0": x}
    with np.errstate(all="ignore"):
        if level == "tensor IR":
            return interpret(graph, values)["o0"]
        if level == "kernel IR":
            return run_kernel_ir(graph, compiled(graph, CPU), values)["o0"]
        if level == "C":
            return run_host(graph, compiled(graph, CPU), values)["o0"]
        if level == "GPU":
            return run_gpu(graph, compiled(graph, H200), values)["o0"]
        return run_on_cpu(graph, compiled(graph, H200), values, Adversary(Order.ABREAST))["o0"]


def cast(source: DType, target: DType, size: int) -> TensorGraph:
    return region("cast", [B.cast(B.input("x:0", source, (size,)), target)])


def bits(x: Array) -> NDArray[np.unsignedinteger]:
    return x.view(f"u{x.dtype.itemsize}")


def all_of(dtype: DType) -> Array:
    """Each value of a type."""
    return np.arange(1 << 8 * dtype.size).astype(f"u{dtype.size}").view(dtype.numpy)


def finite(dtype: DType) -> NDArray[np.float64]:
    """All finite values of a type, in order."""
    values = all_of(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def near_ties(dtype: DType, wide: type[np.floating]) -> Array:
    """What lies halfway between neighbours, the neighbours themselves, and what is the least, and 2^-40, beside; what
    is beyond the largest, below the smallest, and nothing at all."""
    values = finite(dtype)
    beyond = values[-1] * np.array([1 + 1 / 32, 1 + 1 / 28, 1 + 1 / 16, 1 + 1 / 14, 1.125, 1.25, 2, 1e6])
    exact = np.concatenate([values, (values[1:] + values[:-1]) / 2, beyond, -beyond]).astype(wide)
    edges = np.array([np.inf, np.nan, 0, 1e-45, 1e-40, 3e38, np.finfo(wide).max, np.finfo(wide).tiny], wide)
    beside = [np.nextafter(exact, wide(np.inf)), np.nextafter(exact, wide(-np.inf)), exact * wide(1 + 2.0**-40),
              exact * wide(1 - 2.0**-40)]
    with np.errstate(over="ignore"):
        return np.concatenate([exact, *beside, edges, -edges]).astype(wide)


def same_numbers(got: Array, want: Array) -> None:
    """The same bits, but of NaN."""
    missing, found = (np.isnan(x if x.dtype.kind == "f" else x.astype(np.float32)) for x in (want, got))
    np.testing.assert_array_equal(found, missing)
    np.testing.assert_array_equal(bits(got)[~missing], bits(want)[~missing])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", FLOAT8)
@pytest.mark.parametrize("source", [DType.F32, DType.F64])
def test_every_tie_and_what_is_beside_it(source: DType, target: DType, level: str) -> None:
    """A float64 beside a tie is the tie itself as a float32."""
    wide = np.float32 if source is DType.F32 else np.float64
    x = near_ties(target, wide)
    got, want = run(level, cast(source, target, x.size), x), by_tensorflow(x, target)
    if level == "GPU":  # whose instructions make one NaN of a float64's
        same_numbers(got, want)
    else:
        np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", FLOAT8)
@pytest.mark.parametrize("source", HALVES)
def test_every_half(source: DType, target: DType, level: str) -> None:
    x = all_of(source)
    if level == "kernel IR":
        x = x[::7]
    got, want = run(level, cast(source, target, x.size), x), by_tensorflow(x, target)
    number = ~np.isnan(x.astype(np.float32))
    np.testing.assert_array_equal(bits(got)[number], bits(want)[number])
    # Of NaN, which TensorFlow's e5m2 keeps bits of a float16 of, the sign is the same; not that of a GPU's float16.
    assert np.isnan(got[~number].astype(np.float32)).all()
    if level != "GPU" or source is not DType.F16:
        np.testing.assert_array_equal(bits(got)[~number] & 0x80, bits(want)[~number] & 0x80)


@pytest.mark.parametrize("level", ["C", "CUDA", ON_GPU])
@pytest.mark.parametrize("target", FLOAT8)
def test_float32_of_all_magnitudes(target: DType, level: str) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, np.uint32)
    x[: 1 << 19] = np.linspace(0, (1 << 31) - 1, 1 << 19).astype(np.uint32)
    floats = x.view(np.float32)
    got = run(level, cast(DType.F32, target, x.size), floats)
    np.testing.assert_array_equal(bits(got), bits(by_tensorflow(floats, target)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", [*BACK, *FLOAT8])
@pytest.mark.parametrize("source", FLOAT8)
def test_all_values_back(source: DType, target: DType, level: str) -> None:
    if source is target:
        return
    x = all_of(source)
    if level in ("CUDA", "GPU") and target.is_integer:  # a GPU has an integer of its own for what does not fit
        x = x[np.isfinite(x.astype(np.float32))]
    got, want = run(level, cast(source, target, x.size), x), by_tensorflow(x, target)
    if not target.is_real:
        np.testing.assert_array_equal(got, want)
        return
    same_numbers(got, want)


def _halves_made_here(x: Node) -> Node:
    """Products of halves that are rounded to halves before they are to float8."""
    return B.cast(B.mul(x, B.scalar_like(1.0625, x)), DType.F8_E4M3FN)


def _chosen(x: Node) -> Node:
    """Float8 that a kernel makes, chooses from, and makes halves of."""
    one, other = B.cast(x, DType.F8_E5M2), B.cast(B.mul(x, B.scalar_like(3, x)), DType.F8_E5M2)
    chosen = B.select(B.op(OpKind.LESS, x, B.scalar_like(0, x)), one, other)
    return B.cast(B.reshape(chosen, (x.type.dims[0] // 4, 4)), x.type.dtype)


def _twice(x: Node) -> Node:
    """To one float8, by float32 to the other, and back."""
    once = B.cast(B.cast(x, DType.F8_E5M2), DType.F32)
    return B.cast(B.cast(B.mul(once, B.scalar_like(1.25, once)), DType.F8_E4M3FN), x.type.dtype)


@pytest.mark.parametrize("level", ["C", "kernel IR", "CUDA", ON_GPU])
@pytest.mark.parametrize("made", [_halves_made_here, _chosen, _twice])
@pytest.mark.parametrize("source", [*HALVES, DType.F32])
def test_what_a_kernel_computes_is_rounded_where_a_float8_would_be(
        source: DType, made: Callable[[Node], Node], level: str) -> None:
    x = (np.random.default_rng(0).standard_normal(4096) * np.exp2(np.arange(4096) % 18 - 9)).astype(source.numpy)
    graph = region("g", [made(B.input("x:0", source, x.shape))])
    same_numbers(run(level, graph, x), run("tensor IR", graph, x))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_what_is_only_moved_is_not_converted(dtype: DType) -> None:
    x = np.resize(all_of(dtype), (64, 36))
    graph = region("g", [B.concat([B.input("x:0", dtype, x.shape)] * 2, 1)])
    got = run("C", graph, x)
    np.testing.assert_array_equal(bits(got), bits(np.concatenate([x] * 2, 1)))
    assert not re.search("tfs_(to|from)_float8", compiled(graph, CPU).source)


@pytest.mark.parametrize(("dtype", "convert"), [(DType.F8_E4M3FN, "cvt.rn.satfinite.e4m3x2.f32"),
                                                (DType.F8_E5M2, "cvt.rn.satfinite.e5m2x2.f32")])
def test_a_gpu_makes_two_at_a_time(dtype: DType, convert: str) -> None:
    code = ptx_of(cast(DType.BF16, dtype, 1 << 20))
    assert code.count(convert) == code.count("cvt.rn.satfinite") == 4
    assert code.count("st.global") == code.count("ld.global") == 1
