"""Matmuls of a CPU's tasks: against the definition in float64, in kernel IR and as compiled."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.differential.runner import (
    Values,
    cache,
    compare,
    keys_of,
    random_values,
    reference,
    region,
    results_by_key,
    run_host,
    run_kernel_ir,
)
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families import matmul_in_tasks
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import arrays
from tf_stitch.planning.matmul_choice import Stitching
from tf_stitch.planning.pattern import alone
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable

B, F32 = Builder(), DType.F32
FLAGS = tuple(product((False, True), (False, True)))


def x(name: str, *shape: int, dtype: DType = F32) -> Node:
    return B.input(f"{name}:0", dtype, shape)


def dot(a: Node, b: Node, transpose_a: bool = False, transpose_b: bool = False) -> Node:
    """A matmul that is given to a kernel."""
    return make_node(OpKind.DOT, (a, b), DotAttrs(transpose_a, transpose_b, in_kernel=True))


def matmul(m: int, k: int, n: int, flags: tuple[bool, bool] = (False, False)) -> Node:
    a, b = (k, m) if flags[0] else (m, k), (n, k) if flags[1] else (k, n)
    return dot(x(f"a{a}", *a), x(f"b{b}", *b), *flags)


def compiled(graph: TensorGraph, device: DeviceSpec = CPU) -> CompiledRegion:
    """Matmuls and what is around them are one kernel, whatever that is predicted to save."""
    found = compile_region(graph, *keys_of(graph), CompileOptions(device, PlanOptions(matmuls=Stitching.ALL)))
    for kernel in found.kernels:
        verify_program(kernel.program)
    return found


def families(compiled_region: CompiledRegion) -> list[str]:
    return [kernel.schedule.family for kernel in compiled_region.kernels]


def check(outputs: list[Node], kernels: int = 1) -> None:
    """They are this many kernels, all of them of matmuls, and right."""
    graph = region("g", outputs)
    values, found = random_values(graph), compiled(graph)
    assert families(found) == [matmul_in_tasks.NAME] * kernels
    want, allowed = reference(graph, values)
    compare(graph, run_host(graph, found, values), want, allowed, "compiled")
    compare(graph, run_kernel_ir(graph, found, values), want, allowed, "kernel IR")


SIZES = ((1, 17, 17), (3, 105, 31), (16, 20, 32), (19, 17, 49), (35, 18, 70))


def test_every_edge_of_tiles() -> None:
    """Rows, columns and terms that are no multiple of a tile's, of a vector's, or of a sum's; every transposition."""
    check([matmul(*size, flags) for size in SIZES for flags in FLAGS], len(SIZES) * len(FLAGS))


def of_any_size() -> TensorGraph:
    random = np.random.default_rng(3)
    sizes = [tuple(map(int, random.integers((1, 17, 17), (80, 320, 1200)))) for _ in range(12)]
    return region("g", [matmul(*size, FLAGS[i % 4]) for i, size in enumerate(sizes)])


@pytest.fixture(scope="module")
def anything() -> tuple[TensorGraph, Values, Values, Values]:
    graph = of_any_size()
    values = random_values(graph)
    return graph, values, *reference(graph, values)


@pytest.mark.parametrize("processor", ["native", "haswell", "x86-64"])
def test_vectors_of_every_width(processor: str, anything: tuple[TensorGraph, Values, Values, Values]) -> None:
    graph, values, want, allowed = anything
    found = compiled(graph)
    library = build_host(found.source, processor, cache())
    outs, state = HostExecutable(found.executable, library).run(values, values)
    compare(graph, results_by_key(graph, outs, state), want, allowed, processor)


def test_results_do_not_depend_on_the_number_of_cores(anything: tuple[TensorGraph, Values, Values, Values]) -> None:
    graph, values, _, _ = anything
    found = [compiled(graph, replace(CPU, processors=cores)) for cores in (1, 16)]
    assert found[0].source != found[1].source
    one, many = (run_host(graph, each, values) for each in found)
    for key, result in one.items():
        np.testing.assert_array_equal(result, many[key])


def dense(m: int, k: int, n: int) -> Node:
    y = B.add(matmul(m, k, n), B.broadcast(x("bias", n), (m, n)))
    return B.maximum(y, B.scalar_like(0, y))


def test_what_follows_a_matmul() -> None:
    """An activation, a residual and a cast; what is read before and after one; results that are moved."""
    y = dense(21, 18, 40)
    check([y])
    check([B.cast(B.add(y, x("residual", 21, 40)), DType.BF16)])
    check([y, B.mul(y, x("scale", 21, 1))])
    check([B.transpose(B.reshape(y, (3, 7, 40)), (2, 0, 1))])


def test_what_is_before_a_matmul() -> None:
    """Operands that are computed, or lie in memory at other distances."""
    a, b = x("a", 21, 18), x("b", 18, 40)
    check([dot(B.mul(a, x("mask", 21, 18)), b)])
    check([dot(a, B.cast(x("half", 18, 40, dtype=DType.F16), F32))])
    check([dot(B.mul(x("c", 18, 21), x("d", 18, 1)), B.mul(x("e", 40, 18), x("f", 18)), True, True)])
    long, wide = x("long", 30, 50), x("wide", 20, 90)
    check([dot(B.slice(long, (4, 8), (1, 1), (21, 18)), B.slice(wide, (1, 45), (1, 1), (18, 40)))])


def test_matrices_of_heads() -> None:
    """Of one sequence, read where they lie, and their results put beside each other."""
    query, key = (B.transpose(B.reshape(x(name, 19, 3 * 20), (19, 3, 20)), (1, 0, 2)) for name in ("query", "key"))
    scores = dot(query, key, transpose_b=True)
    check([B.mul(scores, B.scalar_like(0.2, scores))])
    of_two = B.transpose(B.reshape(x("of_two", 2, 19, 3 * 20), (2, 19, 3, 20)), (0, 2, 1, 3))
    [kernel] = compiled(region("g", [dot(of_two, of_two, transpose_b=True)])).kernels
    assert [stmt.name for stmt in arrays(kernel.program.body)].count("first_operand") == 0, "it is read where it lies"
    check([dot(of_two, of_two, transpose_b=True)])
    mixed = dot(x("weights", 3, 19, 19), query)
    check([B.reshape(B.transpose(mixed, (1, 0, 2)), (19, 60))])


def test_gates_of_a_cell() -> None:
    """Columns of a tile are cut out of its rows: a task has whole rows."""
    gates = B.add(matmul(20, 24, 4 * 20), B.broadcast(x("bias", 80), (20, 80)))
    i, f, g, o = (B.slice(gates, (0, 20 * n), (1, 1), (20, 20)) for n in range(4))
    sigmoid = lambda v: B.op(OpKind.SIGMOID, v)  # noqa: E731
    cell = B.add(B.mul(sigmoid(f), x("cell", 20, 20)), B.mul(sigmoid(i), B.op(OpKind.TANH, g)))
    check([cell, B.mul(sigmoid(o), B.op(OpKind.TANH, cell))])


def test_a_variable_is_updated_where_its_gradient_is_computed() -> None:
    weights = B.variable("w", F32, (18, 40))
    gradient = matmul(18, 33, 40, (True, False))
    graph = region("g", [], {"w": B.sub(weights, B.mul(gradient, B.scalar_like(0.1, gradient)))})
    values, found = random_values(graph), compiled(graph)
    assert families(found) == [matmul_in_tasks.NAME]
    assert [mode.name for _, mode in found.executable.state] == ["IN_PLACE"]
    want, allowed = reference(graph, values)
    compare(graph, run_host(graph, found, values), want, allowed, "compiled")
    compare(graph, run_kernel_ir(graph, found, values), want, allowed, "kernel IR")


def test_what_the_library_keeps() -> None:
    refusals = {
        "another type": (dot(x("a", 20, 20, dtype=DType.F64), x("b", 20, 20, dtype=DType.F64)), CPU),
        "fewer than 16 columns": (matmul(20, 20, 15), CPU),
        "to be put in order": (matmul(20, 1 << 12, 32, (False, True)), CPU),
        "a CPU's": (matmul(20, 20, 20), replace(H200, tf32=False))}
    for reason, (node, device) in refusals.items():
        with pytest.raises(ScheduleError, match=reason):
            compile_pattern(alone(node), device)


def test_tasks_for_all_cores() -> None:
    """Few rows are cut into tiles of fewer columns; columns that have to be put in order are, once each."""
    grids = {size: compile_pattern(alone(matmul(*size)), replace(CPU, processors=8)).schedule.mapping.grid
             for size in ((256, 64, 64), (32, 64, 512), (32, 64, 64))}
    assert grids == {(256, 64, 64): 32, (32, 64, 512): 32, (32, 64, 64): 4}
    arranged = compile_pattern(alone(matmul(4096, 64, 256, (False, True))), CPU).schedule.mapping
    assert (arranged.grid, arranged.items) == (8, 32)


def test_a_library_multiplies_unless_kernels_are_asked_for() -> None:
    """Under a budget of memory, what a kernel of a matmul holds besides is not computed again."""
    graph = region("g", [B.exp(B.dot(x("a", 256, 256), x("b", 256, 256)))])

    def kernels(matmuls: Stitching) -> list[str]:
        options = CompileOptions(CPU, PlanOptions(matmuls=matmuls))
        return families(compile_region(graph, *keys_of(graph), options))

    assert kernels(Stitching.NONE) == ["elementwise"]
    assert kernels(Stitching.PREDICTED) == [matmul_in_tasks.NAME]
