"""AStitch's ablation: each step of reuse needs fewer launches, and moves less, than the one before."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_host, run_kernel_ir
from tests.planning.paper_graphs import figure_7a, motivating_example
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir.cost import buffer_bytes
from tf_stitch.schedule.reuse import Reuse

B, F32 = p.B, DType.F32


def layernorm_backward() -> TensorGraph:
    matrices = [B.input(f"{name}:0", F32, (2048, 768)) for name in ("x", "dy")]
    rows = [B.input(f"{name}:0", F32, (2048, 1)) for name in ("mean", "rstd")]
    return region("layernorm_backward", p.layernorm_backward(*matrices, B.input("gamma:0", F32, (768,)), *rows))


def batchnorm() -> TensorGraph:
    per_channel = [B.input(f"{name}:0", F32, (64,)) for name in ("gamma", "beta", "mean", "variance")]
    return region("batchnorm", p.batchnorm_training(B.input("x:0", F32, (4096, 64)), *per_channel)[0])


def softmax() -> TensorGraph:
    return region("softmax", [p.softmax(B.input("x:0", F32, (512, 1000)))])


def moved(result: CompiledRegion) -> int:
    return sum(buffer_bytes(kernel.program) for kernel in result.kernels)


@pytest.mark.parametrize("graph", [softmax, layernorm_backward, batchnorm, figure_7a, motivating_example],
                         ids=lambda f: f.__name__)
def test_each_step_launches_less(graph: Callable[[], TensorGraph]) -> None:
    steps = [compiled(graph(), H200, reuse=reuse) for reuse in Reuse]
    launches = [len(result.executable.steps) for result in steps]
    assert launches == sorted(launches, reverse=True)
    assert launches[-1] < launches[0], launches
    assert all(moved(a) >= moved(b) for a, b in itertools.pairwise(steps))


@pytest.mark.parametrize("reuse", Reuse)
def test_results_are_the_same(reuse: Reuse) -> None:
    x = B.input("x:0", F32, (6, 40))
    graph = region("rows", [p.softmax(x), B.sum(x, [1]), B.reduce(p.OpKind.MAX, x, [0])])
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_host(graph, compiled(graph, CPU, reuse=reuse), values), want, allowed, "CPU")
    compare(graph, run_kernel_ir(graph, compiled(graph, H200, reuse=reuse), values), want, allowed, "H200")
