"""Every element-wise op on values where they differ, as C and as CUDA that runs on a CPU, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.differential.patterns import B
from tests.differential.runner import Values, compiled, region, run_host
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.device.spec import CPU, H200
from tf_stitch.emit.c_family import has_intrinsic
from tf_stitch.errors import TypeRuleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.op_table import OP_TABLE

FLOATS = (-np.inf, -7.0, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 1.5, 2.5, 7.0, 40.0, np.inf, np.nan)
INTEGERS = (-7, -3, -2, -1, 1, 2, 3, 7)
"""None is 0: what an integer divided by it is, the device says."""
NOT_HERE = {OpKind.CAST, OpKind.RANDOM_BITS}
"""Casts have other types, random bits meaning for few operands alone: they have tests of their own."""
ERROR = {DType.F32: 2e-5, DType.F64: 1e-12}


def graph_of(dtype: DType) -> TensorGraph:
    """All ops that the type has, an output each, by name."""
    operands = [B.input(f"x{i}:0", dtype, (len(values_of(dtype)["x0:0"]),)) for i in range(2)]
    outputs: list[tuple[str, Node]] = []
    for kind, info in OP_TABLE.items():
        if info.category is not Category.ELEMENTWISE or kind in NOT_HERE or not has_intrinsic(kind, dtype):
            continue
        condition = [B.op(OpKind.LESS, *operands)] if kind is OpKind.SELECT and dtype is not DType.BOOL else []
        try:
            node = B.op(kind, *condition, *operands[:info.arity - len(condition)])
        except TypeRuleError:
            continue
        outputs.append((kind.value, node))
    return TensorGraph("ops", outputs)


def values_of(dtype: DType) -> Values:
    """All pairs."""
    some = (False, True) if dtype is DType.BOOL else FLOATS if dtype.is_float else INTEGERS
    pairs = np.array(list(itertools.product(some, some)), dtype.numpy)
    return {"x0:0": pairs[:, 0].copy(), "x1:0": pairs[:, 1].copy()}


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I32, DType.I64, DType.BOOL])
def test_gives_what_numpy_gives(dtype: DType) -> None:
    graph, values = graph_of(dtype), values_of(dtype)
    assert len(graph.outputs) > 4
    with np.errstate(all="ignore"):
        want = interpret(graph, values)
    cpu, gpu = compiled(graph, CPU), compiled(graph, H200)
    for what, got in (("C", run_host(graph, cpu, values)),
                      ("CUDA", run_on_cpu(graph, gpu, values, Adversary(Order.AHEAD)))):
        for key, _ in graph.outputs:
            np.testing.assert_allclose(got[key], want[key], rtol=ERROR.get(dtype, 0), atol=ERROR.get(dtype, 0) / 4,
                                       err_msg=f"{what}: {key} of {values}")


@pytest.mark.parametrize("source", DType)
def test_casts(source: DType) -> None:
    """Of what the result's type can hold."""
    some = (0, 1) if source is DType.BOOL else (0, 1, 2, 7, 100) if source is DType.U64 else (0, 1, -1, 3, -100)
    fractions = (0.5, -2.5, 1.75) if source.is_float else ()
    value = np.array([*some, *fractions]).astype(source.numpy)
    outputs = []
    for target in DType:
        try:
            outputs.append(B.cast(B.input("x:0", source, value.shape), target))
        except TypeRuleError:
            assert DType.U64 in (source, target) or (target.is_float8 and not source.is_float)
    graph = region("casts", outputs)
    want = interpret(graph, {"x:0": value})
    for got in (run_host(graph, compiled(graph, CPU), {"x:0": value}),
                run_on_cpu(graph, compiled(graph, H200), {"x:0": value}, Adversary(Order.AHEAD))):
        for key, node in graph.outputs:
            np.testing.assert_array_equal(got[key].astype(np.float64), want[key].astype(np.float64), str(node))
