"""Values that several kernels compute themselves are those that one of them would have written."""

from __future__ import annotations

import pytest

from tests.differential.runner import check_all, compiled, region
from tf_stitch.compiler import private_values
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind

B, F32 = Builder(), DType.F32
COLUMNS = (8,)


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_values, "LARGE", 0)


def normalized(x: Node) -> Node:
    """By the mean and the variance of its columns."""
    deviation = B.sub(x, B.mean(x, [0]))
    variance = B.add(B.mean(B.square(deviation), [0]), B.constant(1e-3, F32))
    return B.mul(deviation, B.op(OpKind.RSQRT, variance))


def check(graph: TensorGraph) -> None:
    """That no kernel writes what is as large as x but the results, and that they are right."""
    [shape] = {node.type.dims for node in graph.inputs() if node.type.rank == 2}
    wanted = sum(node.type.dims == shape for _, node in graph.outputs)
    kernels = compiled(graph, H200).kernels
    assert sum(n.type.dims == shape for kernel in kernels for n in kernel.schedule.pattern.outputs) == wanted
    check_all(graph, interpret_gpu=True)


def test_a_batch_normalization_of_a_sum_with_a_bias_and_its_gradient() -> None:
    x, grad = (B.input(f"{name}:0", F32, (512, *COLUMNS)) for name in ("x", "grad"))
    y = normalized(B.add(x, B.input("bias:0", F32, COLUMNS)))
    masked = B.mul(grad, B.cast(B.op(OpKind.GREATER, y, B.constant(0, F32)), F32))
    means = B.add(B.mean(masked, [0]), B.mul(y, B.mean(B.mul(masked, y), [0])))
    check(region("g", [B.op(OpKind.ABS, y), B.sub(masked, means)]))


def test_one_whose_argument_a_variable_is_that_is_updated() -> None:
    """Whoever reads the variable computes with its old value."""
    x = B.variable("v", F32, (2048, *COLUMNS))
    y = normalized(B.add(x, B.input("bias:0", F32, COLUMNS)))
    check(region("g", [B.sum(B.square(B.op(OpKind.ABS, y)), [0])], {"v": y}))
