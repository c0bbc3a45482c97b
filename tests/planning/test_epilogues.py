"""What moves from kernels into library calls, and what stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import (
    check_all,
    compare,
    compiled,
    keys_of,
    random_values,
    reference,
    region,
    run_kernel_ir,
)
from tests.ir.test_activations import exact_gelu, gelu, relu
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.planning.pattern_kind import kind_of

B, F32 = p.B, DType.F32
DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)


def dense(x: Node, name: str, columns: int = 32) -> Node:
    dtype = x.type.dtype
    return B.add(B.dot(x, B.variable(f"w{name}", dtype, (x.type.dims[-1], columns))),
                 B.variable(f"b{name}", dtype, (columns,)))


def calls(graph: TensorGraph, device: DeviceSpec = H200) -> list[str]:
    """What each library call does beyond a matmul."""
    return [str(c.call).partition("]x[")[2].partition(" ")[2] for c in compiled(graph, device).calls]


@DEVICES
def test_a_network_of_dense_layers_is_library_calls_alone(device: DeviceSpec) -> None:
    x = B.input("x", F32, (64, 32))
    y = dense(B.add(dense(gelu(dense(relu(dense(x, "1")), "2")), "3"), x), "4")
    graph = region("mlp", [y])
    result = compiled(graph, device)
    assert not result.kernels
    assert all(isinstance(kind_of(pattern, LIBRARIES), Library) for pattern in result.plan.patterns)
    assert result.plan.solver is not None
    assert (result.plan.solver.kernels, result.plan.solver.epilogues) == (0, 4)
    assert calls(graph, device) == ["nn + bias relu", "nn + bias gelu", "nn + bias + addend", "nn + bias"]
    check_all(graph, interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_half_types(dtype: DType) -> None:
    x = B.input("x", dtype, (40, 24))
    check_all(region("half", [relu(dense(x, "1")), B.add(dense(x, "2", 24), x)]), interpret_gpu=True)


def test_the_exact_gelu_stays_a_kernel() -> None:
    graph = region("gelu", [exact_gelu(dense(B.input("x", F32, (64, 32)), "1"))])
    assert len(compiled(graph, H200).kernels) == 1
    check_all(graph, interpret_gpu=True)


def test_what_the_backward_pass_needs_is_stored() -> None:
    before = dense(B.input("x", F32, (4096, 64)), "1", 1024)
    assert calls(region("kept", [before, gelu(before)])) == ["nn + bias"]
    check_all(region("small", [y := dense(B.input("x", F32, (20, 24)), "1"), gelu(y)]), interpret_gpu=True)


def test_the_rest_of_a_kernel_joins_the_one_that_uses_it() -> None:
    """The mask of a relu is made where the gradient is masked."""
    x = B.input("x", F32, (256, 256))
    hidden = relu(dense(x, "1", 256))
    error = dense(hidden, "2", 256)
    back = B.dot(error, B.variable("w2", F32, (256, 256)), False, True)
    mask = B.cast(B.op(OpKind.GREATER, hidden, p.const(0, hidden)), F32)
    graph = region("mask", [B.dot(hidden, error, True), B.dot(x, B.mul(back, mask), True)])
    result = compiled(graph, H200)
    assert len(result.kernels) == 1
    assert any(str(c.call).endswith("+ bias relu") for c in result.calls)


def test_a_call_waits_for_nothing_that_its_matmul_does_not_need() -> None:
    """Matmuls whose sum is wanted run side by side; one that follows from the addend may add it."""
    x = B.input("x", F32, (64, 64))
    y, z = (B.dot(x, B.variable(n, F32, (64, 64))) for n in "yz")
    assert calls(region("beside", [B.add(y, z)])) == ["nn", "nn"]
    first = B.op(OpKind.TANH, x)
    after = B.dot(first, B.variable("y", F32, (64, 64)))
    assert calls(region("after", [B.add(after, first)])) == ["nn + addend"]


def test_a_kernel_that_needs_the_call_does_not_make_its_addend() -> None:
    """The bias is computed beside what is done with the sum: one kernel, which would wait for itself."""
    x, scale = B.input("x", F32, (64, 32)), B.input("s", F32, (32,))
    bias = B.exp(scale)
    y = B.add(B.dot(x, B.variable("w", F32, (32, 32))), bias)
    check_all(region("cycle", [B.mul(B.exp(y), bias)]), interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("batch", [1, 2])
def test_attention_of_one_sequence_transposes_nothing(batch: int) -> None:
    heads, length, size = 3, 20, 24
    width = heads * size
    x = B.input("x", F32, (batch * length, width))

    def split(y: Node) -> Node:
        return B.transpose(B.reshape(y, (batch, length, heads, size)), [0, 2, 1, 3])

    q, k, v = (split(dense(x, n, width)) for n in "qkv")
    scores = p.softmax(B.mul(B.dot(q, k, False, True), p.const(size ** -0.5, q)))
    mixed = B.reshape(B.transpose(B.dot(scores, v), [0, 2, 1, 3]), (batch * length, width))
    graph = region("attention", [dense(mixed, "o", width)])
    if batch == 1:
        result = compiled(graph, replace(H200, tf32=False))  # else it is one kernel
        assert len(result.kernels) == 1
        assert [str(c.call).endswith("transposed") for c in result.calls].count(True) == 1
    check_all(graph, interpret_cpu=True, interpret_gpu=True)


def test_a_transpose_that_is_needed_itself() -> None:
    x = B.input("x", F32, (20, 3, 24))
    moved = B.transpose(x, [1, 0, 2])
    y = B.dot(moved, B.input("y", F32, (3, 24, 32)))
    check_all(region("moved", [y, moved]), interpret_cpu=True, interpret_gpu=True)
    check_all(region("used", [y, B.exp(moved)]), interpret_cpu=True, interpret_gpu=True)


def test_a_variable_that_a_call_adds_to_gets_fresh_memory() -> None:
    w = B.variable("w", F32, (32, 32))
    graph = region("add", [], {"w": B.add(B.dot(B.input("x", F32, (32, 40)), B.input("y", F32, (40, 32))), w)})
    check_all(graph, interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_fuel_takes_calls_apart(kept: int) -> None:
    x = B.input("x", F32, (64, 32))
    graph = region("mlp", [dense(gelu(dense(relu(dense(x, "1")), "2")), "3")])
    result = compile_region(graph, *keys_of(graph), CompileOptions(H200, patterns=kept))
    assert len(result.calls) == 3
    assert sum(len(c.nodes) > 1 for c in result.calls) == kept
    assert bool(result.kernels) == (kept < 3)
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, result, values), *reference(graph, values), f"{kept} patterns")
