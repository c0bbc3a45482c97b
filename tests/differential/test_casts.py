"""Floats to integers that do not fit: TensorFlow's own kernel says what they become on a CPU."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import CPU, H200, Array, compiled, region, run_host, run_kernel_ir
from tests.emit.ptx import ptx_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind

B = Builder()
FLOATS, INTEGERS = (DType.F16, DType.BF16, DType.F32, DType.F64), (DType.I32, DType.I64)
EDGES = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 0.99999994, -0.99999994, 2.5, -2.5, 65504.0, -65504.0,
         2147483520.0, 2147483647.0, 2147483647.5, 2147483648.0, -2147483648.0, -2147483648.5, -2147483649.0,
         -2147483904.0, 5e9, -5e9, 9223371487098961920.0, 9223372036854774784.0, 9223372036854775808.0,
         -9223372036854775808.0, -9223373136366403584.0, 1e19, -1e19, 3.4e38, -3.4e38, 1e300, -1e300]
LENGTHS = (1, 3, 8, 17, 40)


def cast(source: DType, target: DType, size: int) -> TensorGraph:
    """Of a value that the kernel computes, so that a compiler sees where it comes from."""
    x = B.input("x:0", source, (size,))
    return region("cast", [B.cast(B.op(OpKind.SQRT, x), target), B.cast(B.op(OpKind.LOG, x), target),
                           B.cast(B.mul(x, B.scalar_like(1, x)), target)])


def by_tensorflow(x: Array, target: DType) -> Array:
    return np.asarray(tf.raw_ops.Cast(x=tf.constant(x), DstT=tf.as_dtype(target.value)))


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("target", [*INTEGERS, DType.BOOL])
@pytest.mark.parametrize("source", FLOATS)
def test_as_tensorflow_on_every_level(source: DType, target: DType, size: int) -> None:
    graph = cast(source, target, size)
    cpu = compiled(graph, CPU)
    with np.errstate(all="ignore"):
        edges = np.array(EDGES).astype(source.numpy)
    for first in range(len(edges)):
        values = {"x:0": np.resize(np.roll(edges, -first), size)}
        wide = values["x:0"].astype(source.compute.numpy)
        with np.errstate(all="ignore"):
            want = [by_tensorflow(f(wide).astype(source.numpy), target) for f in (np.sqrt, np.log, np.positive)]
        levels = {"C": run_host(graph, cpu, values), "tensor IR": interpret(graph, values)}
        if size == LENGTHS[1]:
            levels["kernel IR"] = run_kernel_ir(graph, cpu, values)
        for level, got in levels.items():
            for i, wanted in enumerate(want):
                np.testing.assert_array_equal(got[f"o{i}"], wanted, err_msg=f"{level}, output {i}")


@pytest.mark.parametrize("source", [DType.F16, DType.BF16])
@pytest.mark.parametrize("target", INTEGERS)
def test_a_half_is_one_before_it_is_an_integer(source: DType, target: DType) -> None:
    """Products of halves are another integer before they are rounded, and fit where the half is infinite."""
    x, y = B.input("x:0", source, (4000,)), B.input("y:0", source, (4000,))
    graph = region("product", [B.cast(B.mul(x, y), target)])
    rng = np.random.default_rng(0)
    values = {f"{name}:0": (rng.random(4000) * 400).astype(source.numpy) for name in "xy"}
    with np.errstate(over="ignore"):
        want = by_tensorflow(values["x:0"] * values["y:0"], target)
    np.testing.assert_array_equal(run_host(graph, compiled(graph, CPU), values)["o0"], want)
    np.testing.assert_array_equal(run_kernel_ir(graph, compiled(graph, CPU), values)["o0"], want)
    rounding = "tfs_to_half(" if source is DType.F16 else "tfs_to_bfloat16("
    assert rounding in compiled(graph, H200).source.partition("void stitch_0(")[2]


def test_a_half_is_one_before_its_tangent() -> None:
    """-1.75 - 0.5493 + 0.7285 in halves is 0.0005 from the pole, and in floats 0.000004."""
    x, y, z = (B.input(f"{name}:0", DType.F16, ()) for name in "xyz")
    graph = region("pole", [B.op(OpKind.TAN, B.add(B.sub(x, y), z))])
    values = {"x:0": np.float16(-1.75), "y:0": np.float16(0.54931640625), "z:0": np.float16(0.728515625)}
    want = np.float16(np.tan(np.float64(np.float16(np.float16(values["x:0"] - values["y:0"]) + values["z:0"]))))
    np.testing.assert_array_equal(run_host(graph, compiled(graph, CPU), values)["o0"], want)


def test_a_half_is_one_before_it_is_an_exponent() -> None:
    """6140 / 2047 is no integer, and as a half it is 3."""
    x, y, z = (B.input(f"{name}:0", DType.F16, ()) for name in "xyz")
    graph = region("power", [B.op(OpKind.POW, x, B.div(y, z))])
    values = {"x:0": np.float16(-2), "y:0": np.float16(6140), "z:0": np.float16(2047)}
    assert np.float16(values["y:0"] / values["z:0"]) == 3
    np.testing.assert_array_equal(run_host(graph, compiled(graph, CPU), values)["o0"], np.float16(-8))


@pytest.mark.parametrize("source", [DType.F32, DType.F64])
@pytest.mark.parametrize("target", INTEGERS)
def test_a_gpu_converts_as_its_instruction_does(source: DType, target: DType) -> None:
    """And nothing is done to what it gives: TensorFlow's kernel there is this instruction."""
    ptx = ptx_of(region("cast", [B.cast(B.input("x:0", source, (256,)), target)]))
    converted = re.search(rf"cvt\.rzi\.s{target.size * 8}\.f{source.size * 8}\s+(%\w+),", ptx)
    assert converted
    assert re.search(rf"st\.global\.u{target.size * 8}\s+\[%\w+\], {converted[1]};", ptx)
