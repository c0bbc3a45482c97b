"""Rows that the blocks of a cluster share, forced by template, in the interpreter of kernel IR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.compiler.tilings import template_of
from tf_stitch.config import ForcedTemplate
from tf_stitch.device.spec import H200
from tf_stitch.families.row import propose
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.schedule import shared_rows
from tf_stitch.schedule.composition import Composition, compositions
from tf_stitch.schedule.kernel_schedule import Scheme
from tf_stitch.templates import parse_template

B, F32 = p.B, DType.F32


def x(*shape: int, name: str = "x", dtype: DType = F32) -> Node:
    return B.input(f"{name}:0", dtype, shape)


def layernorm(rows: int, cols: int) -> Node:
    return p.layernorm(x(rows, cols), x(cols, name="gamma"), x(cols, name="beta"))


def less_its_maximum(row: Node) -> Node:
    return B.sub(row, B.reduce(OpKind.MAX, row, [1], True))


def clustered(graph: TensorGraph, tiling: str, keep: str = "") -> CompiledRegion:
    """The graph with the template *[tiling] on all its kernels."""
    template = parse_template(f"*[{tiling}]{keep};")
    choice = TemplateChoice(H200, True, (ForcedTemplate("*", template),), None)
    return compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions("greedy", barriers=False),
                                                                 templates=choice))


def check(graph: TensorGraph, built: CompiledRegion, values: dict[str, np.ndarray] | None = None) -> None:
    values = random_values(graph) if values is None else values
    for kernel in built.kernels:
        verify_program(kernel.program)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")


CASES = {
    "softmax": (lambda: p.softmax(x(2, 16400)), "GRID,THREAD_5-CLUSTER_8-CTA_128-THREAD_4", ""),
    "softmax again and again": (lambda: p.softmax(x(2, 16400)), "GRID,THREAD-CLUSTER_2-CTA_64-THREAD_4", ""),
    "softmax in shared memory": (lambda: p.softmax(x(2, 16400)), "GRID,THREAD-CLUSTER_4-CTA_64-THREAD_4", "S"),
    "softmax in two places": (lambda: p.softmax(x(2, 16400)), "GRID,THREAD_6-THREAD_3-CLUSTER_2-CTA_256-THREAD_4", ""),
    "layernorm in two places": (lambda: layernorm(2, 16404), "GRID,THREAD_3-THREAD_2-CLUSTER_4-CTA_256-THREAD_4", ""),
    "odd in two places": (lambda: p.softmax(x(1, 16387)), "GRID,THREAD_9-THREAD_8-CLUSTER_4-CTA_256-THREAD_1", ""),
    "odd": (lambda: p.softmax(x(2, 16389)), "GRID,THREAD_33-CLUSTER_8-CTA_64-THREAD_1", ""),
    "layernorm": (lambda: layernorm(2, 16400), "GRID,THREAD-CLUSTER_8-CTA_64-THREAD_4", "S"),
    "integers": (lambda: less_its_maximum(x(3, 16400, dtype=DType.I32)), "GRID,THREAD-CLUSTER_4-CTA_64-THREAD_4", ""),
    "doubles": (lambda: less_its_maximum(x(2, 16400, dtype=DType.F64)), "GRID,THREAD-CLUSTER_2-CTA_64-THREAD_2", ""),
    "halves": (lambda: p.softmax(x(2, 16400, dtype=DType.F16)), "GRID,THREAD-CLUSTER_4-CTA_32-THREAD_8", "S"),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_of_a_cluster_share_a_row(name: str) -> None:
    """An ordinary launch of any grid, without scratch: what blocks tell each other is in their shared memory."""
    output, tiling, keep = CASES[name]
    graph = region(name, [output()])
    built = clustered(graph, tiling, keep)
    (kernel,), (step,) = built.kernels, built.executable.steps
    assert isinstance(step, DeviceLaunch)
    assert not step.cooperative
    mapping = kernel.schedule.mapping
    assert mapping.cluster
    assert kernel.program.cluster == mapping.row_blocks > 1
    assert step.grid == kernel.schedule.domain.rows * mapping.row_blocks
    assert not [b for b in kernel.program.buffers if b.mode is k.Mode.SCRATCH]
    assert f"__cluster_dims__({mapping.row_blocks}, 1, 1)" in built.source
    assert f"_1[{tiling.removesuffix('-THREAD_1')}]S;" in str(template_of(kernel.schedule))
    check(graph, built)
    build_cubin(built)


def test_a_softmax_meets_once_and_at_no_other_barrier() -> None:
    """Warps sum relative to their own maxima and send both."""
    graph = region("softmax", [p.softmax(x(2, 16400))])
    (kernel,) = clustered(graph, "GRID,THREAD_5-CLUSTER_8-CTA_128-THREAD_4").kernels
    body = kernel.program.body
    assert sum(isinstance(s, k.ClusterBarrier) for s in body) == 1
    assert not any(isinstance(s, k.Barrier) for s in body)
    assert {s.width for s in body if isinstance(s, k.AllReduce)} == {32}


def test_schemes_and_compositions() -> None:
    graph = region("softmax", [p.softmax(x(2, 16400))])
    (kernel,) = clustered(graph, "GRID,THREAD_5-CLUSTER_8-CTA_128-THREAD_4").kernels
    found = {node.kind: scheme for node, scheme in kernel.schedule.schemes.items()}
    assert found[OpKind.SUM] is found[OpKind.MAX] is Scheme.CLUSTER
    assert found[OpKind.EXP] is Scheme.LOCAL
    assert Composition.CLUSTER in compositions(kernel.schedule)
    assert Composition.GRID not in compositions(kernel.schedule)


@pytest.mark.parametrize("what", ["a warp of -inf", "all -inf", "inf", "nan"])
def test_numbers_that_are_none(what: str) -> None:
    graph = region("softmax", [p.softmax(x(2, 16400))])
    built = clustered(graph, "GRID,THREAD_5-CLUSTER_8-CTA_128-THREAD_4")
    values = random_values(graph)
    row = values["x:0"][0]
    if what.endswith("-inf"):
        row[np.arange(row.size) // 128 % 4 == 1 if what.startswith("a warp") else slice(None)] = -np.inf
    else:
        row[9000] = float(what)
    check(graph, built, values)


@pytest.fixture(scope="module")
def short_rows() -> Iterator[None]:
    """Long rows are short here."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (propose, shared_rows):
            patch.setattr(module, "LONG_ROW", 512)
        yield


@pytest.mark.usefixtures("short_rows")
@settings(max_examples=25)
@given(st.integers(1, 3), st.integers(512, 1500), st.sampled_from([2, 4, 8]), st.sampled_from([32, 64, 128]),
       st.sampled_from([1, 4]), st.sampled_from(["", "S"]), st.booleans())
def test_any_row_any_cluster(rows: int, cols: int, blocks: int, threads: int, vector: int, keep: str, norm: bool
                             ) -> None:
    cols = cols // vector * vector
    graph = region("rows", [layernorm(rows, cols) if norm else p.softmax(x(rows, cols))])
    tiling = f"GRID,THREAD-CLUSTER_{blocks}-CTA_{threads}-THREAD_{vector}"
    built = clustered(graph, tiling, keep)
    assert all(kernel.schedule.mapping.cluster for kernel in built.kernels)
    check(graph, built)


def test_clusters_of_one_size_share_launches() -> None:
    """Each kernel has whole ones."""
    graph = region("two", [p.softmax(x(2, 16400)), p.softmax(x(3, 16800, name="y"))])
    built = clustered(graph, "GRID,THREAD-CLUSTER_4-CTA_64-THREAD_4")
    assert (len(built.kernels), len(built.executable.steps)) == (2, 1)
    values = random_values(graph)
    compare(graph, run_on_cpu(graph, built, values, Adversary(Order.BEHIND)), *reference(graph, values), "GPU")


@pytest.mark.parametrize("barriers", [True, False])
def test_clusters_are_neither_fused_nor_turned_round(barriers: bool) -> None:
    """Their blocks are those of the launch: no loop deals them out. The second kernel would begin where the first
    ended, and a device where barriers cost nothing would run both in one launch."""
    row = x(1000, 65_536)
    free = replace(H200, profile=replace(H200.profile, barrier=((8.0, 0.0),)))
    built = compiled(region("two", [B.sum(B.exp(row), [0]), p.softmax(row)]), free, barriers=barriers)
    clusters = [kernel.program for kernel in built.kernels if kernel.program.cluster > 1]
    assert clusters
    assert len(built.kernels) > 1
    assert not any(program.looped for program in clusters)
    for kernel in built.kernels:
        verify_program(kernel.program)
