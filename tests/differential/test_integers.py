"""Integers that overflow wrap around, as TensorFlow's do, on both devices: to C they are undefined."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import CPU, compiled, region, run_host, run_kernel_ir
from tests.emit.ptx import ptx_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind

B = Builder()
K = OpKind
BINARY = {K.ADD: tf.add, K.SUB: tf.subtract, K.MUL: tf.multiply, K.MAXIMUM: tf.maximum, K.MINIMUM: tf.minimum}
UNARY = {K.NEG: tf.negative, K.ABS: tf.abs, K.SIGN: tf.sign, K.INVERT: tf.bitwise.invert}
BY_CONSTANT = {K.DIV: tf.truncatediv, K.FLOOR_DIV: tf.math.floordiv, K.FLOOR_MOD: tf.math.floormod,
               K.TRUNC_MOD: tf.truncatemod}
REDUCTIONS = {K.SUM: tf.reduce_sum, K.PROD: tf.reduce_prod}


@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
def test_extremes_as_by_tensorflow(dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    edges = np.array([info.min, info.min + 1, -3, -1, 0, 1, 2, info.max - 1, info.max], dtype.numpy)
    x, y = (np.ascontiguousarray(a) for a in np.meshgrid(edges, edges, indexing="ij"))
    a, b = B.input("x:0", dtype, x.shape), B.input("y:0", dtype, y.shape)
    outputs: list[tuple[Node, object]] = [(B.op(kind, a, b), op(x, y)) for kind, op in BINARY.items()]
    outputs += [(B.op(kind, a), op(x)) for kind, op in UNARY.items()]
    outputs += [(B.op(kind, a, B.scalar_like(by, a)), op(x, dtype.numpy.type(by)))
                for kind, op in BY_CONSTANT.items() for by in (7, -7)]
    outputs += [(B.reduce(kind, a, [axis]), op(x, axis)) for kind, op in REDUCTIONS.items() for axis in (0, 1)]
    graph = region("integers", [node for node, _ in outputs])
    cpu, values = compiled(graph, CPU), {"x:0": x, "y:0": y}
    levels = {"C": run_host(graph, cpu, values), "kernel IR": run_kernel_ir(graph, cpu, values),
              "tensor IR": interpret(graph, values)}
    for level, got in levels.items():
        for i, (node, want) in enumerate(outputs):
            np.testing.assert_array_equal(got[f"o{i}"], np.asarray(want), err_msg=f"{node.kind.value}, {level}")


ALWAYS_TRUE_TO_C: dict[str, Callable[[Node], Node]] = {
    "x + 1 > x": lambda x: B.op(K.GREATER, B.add(x, B.scalar_like(1, x)), x),
    "x - 1 < x": lambda x: B.op(K.LESS, B.sub(x, B.scalar_like(1, x)), x),
    "abs(x) >= 0": lambda x: B.op(K.GREATER_EQUAL, B.op(K.ABS, x), B.scalar_like(0, x)),
    "x * 2 / 2 == x": lambda x: B.op(K.EQUAL, B.op(K.DIV, B.mul(x, B.scalar_like(2, x)), B.scalar_like(2, x)), x),
}


@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
@pytest.mark.parametrize("name", ALWAYS_TRUE_TO_C)
def test_a_gpu_looks_at_the_numbers(name: str, dtype: DType) -> None:
    ptx = ptx_of(region("compare", [ALWAYS_TRUE_TO_C[name](B.input("x:0", dtype, (256,)))]))
    loaded = re.search(rf"\bld\.global\.u{dtype.size * 8}\s+(%\w+),", ptx)
    assert loaded
    assert loaded[1] in ptx[loaded.end():], "what was read does not matter"


@pytest.mark.parametrize("name", ALWAYS_TRUE_TO_C)
def test_a_cpu_looks_at_the_numbers(name: str) -> None:
    x = np.array([np.iinfo(np.int32).min, np.iinfo(np.int32).max, 5], np.int32)
    graph = region("compare", [ALWAYS_TRUE_TO_C[name](B.input("x:0", DType.I32, x.shape))])
    got = run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]
    assert list(got) == {"x + 1 > x": [True, False, True], "x - 1 < x": [False, True, True],
                         "abs(x) >= 0": [False, True, True], "x * 2 / 2 == x": [False, False, True]}[name]
