"""Short reductions that columns wait for, in the kernel of the columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential import patterns as p
from tests.differential.runner import (
    build_cubin,
    compare,
    compiled,
    keys_of,
    random_values,
    reference,
    region,
    run_kernel_ir,
)
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, run_on_cpu
from tests.support.whole_patterns import whole
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families.column.propose import MOST_REPEATED, propose_column
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes import lower_gemv_to_reduction
from tf_stitch.passes.lower_gemv_to_reduction import as_sum
from tf_stitch.planning.planner import PlanOptions

B, F32 = p.B, DType.F32


@pytest.fixture(autouse=True)
def sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_gemv_to_reduction, "_is_faster", lambda matmul, times: as_sum(matmul) is not None)


def projected(normal: Node, columns: int, name: str = "w") -> Node:
    dtype = normal.type.dtype
    w = B.input(name, dtype, (normal.type.dims[-1], columns))
    return B.add(B.dot(normal, w), B.input(f"{name}b", dtype, (columns,)))


def row(width: int, dtype: DType = F32) -> Node:
    return B.add(B.input("x", dtype, (1, width)), B.input("y", dtype, (1, width)))


def normed(width: int, dtype: DType = F32) -> Node:
    """Of mean and mean square at once: two sums that wait for nothing."""
    return p.layernorm(row(width, dtype), *(B.input(name, dtype, (width,)) for name in ("gamma", "beta")))


def softmaxed(width: int, dtype: DType = F32) -> Node:
    """A maximum, and a sum that waits for it."""
    return p.softmax(row(width, dtype))


GRAPHS: dict[str, Callable[[], list[Node]]] = {
    "norm": lambda: [projected(normed(256), 64)],
    "norm of no whole turns": lambda: [projected(normed(301), 36)],
    "norm for several": lambda: [projected(n, 48, name) for n in [normed(256)] for name in ("q", "k", "v")],
    "norm and gelu": lambda: [p.gelu_erf(projected(normed(256), 64))],
    "a norm, and the sum of fewer": lambda: [
        projected(B.mul(normed(100), B.sum(B.input("z", F32, (1, 60)), [1], keepdims=True)), 64)],
    "softmax": lambda: [projected(softmaxed(300), 40)],
    "half": lambda: [projected(normed(256, DType.F16), 64)]}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> TensorGraph:
    return region("columns", GRAPHS[request.param]())


def test_one_kernel_with_the_results_of_its_nodes(graph: TensorGraph) -> None:
    built = compiled(graph, H200)
    assert [kernel.schedule.family for kernel in built.kernels] == ["column_reduction"]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "kernel IR")
    build_cubin(built)


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_threads_in_any_order(graph: TensorGraph, adversary: Adversary) -> None:
    values = random_values(graph)
    got = run_on_cpu(graph, compiled(graph, H200), values, adversary)
    compare(graph, got, *reference(graph, values), "CUDA")


def test_a_layer_is_a_kernel_for_each_matrix() -> None:
    """An activation is computed once, behind the first matrix, not by every block that multiplies with the second."""
    x = B.add(B.input("x", F32, (1, 768)), projected(B.input("mixed", F32, (1, 768)), 768, "o"))
    wide = p.gelu_erf(projected(p.layernorm(x, *(B.input(name, F32, (768,)) for name in ("gamma", "beta"))), 3072))
    graph = region("layer", [B.add(x, projected(wide, 768, "v"))])
    kernels = compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions(barriers=False))).kernels
    assert [sum(n.kind is OpKind.ERF for n in kernel.schedule.pattern.nodes) for kernel in kernels] == [0, 1, 0]


def test_what_stays_a_kernel_of_its_own() -> None:
    """Many elements, several rows, and what waits for columns."""
    summed = B.sum(B.input("m", F32, (40, 64)), [0])
    width = MOST_REPEATED + 1
    for node in (B.sum(B.mul(B.reshape(p.softmax(row(width)), (width, 1)), B.input("w", F32, (width, 64))), [0]),
                 B.sum(B.mul(p.softmax(B.input("x", F32, (4, 64))), B.input("w", F32, (4, 64))), [0]),
                 B.div(summed, B.sum(summed, [0]))):
        with pytest.raises(ScheduleError):
            propose_column(whole(node), H200, True)


def test_tasks_of_a_cpu_do_not_repeat_it() -> None:
    normal = B.reshape(normed(512), (512, 1))
    with pytest.raises(ScheduleError):
        propose_column(whole(B.sum(B.mul(normal, B.input("w", F32, (512, 64))), [0])), CPU, True)
