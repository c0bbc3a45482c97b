"""Matmuls of a CPU's tasks: against the definition in float64, in kernel IR and as compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential import patterns as p
from tests.differential.runner import check_all, region
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families import matmul_in_tasks
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.pattern import alone

B, F32 = Builder(), DType.F32


def x(name: str, *shape: int, dtype: DType = F32) -> Node:
    return B.input(f"{name}:0", dtype, shape)


def dot(a: Node, b: Node, transpose_a: bool = False, transpose_b: bool = False) -> Node:
    """A matmul that is given to a kernel."""
    return make_node(OpKind.DOT, (a, b), DotAttrs(transpose_a, transpose_b, in_kernel=True))


def product(m: int, k: int, n: int, transpose_a: bool = False, transpose_b: bool = False) -> Node:
    a, b = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    return dot(x("a", *a), x("b", *b), transpose_a, transpose_b)


def families(graph: TensorGraph) -> list[str]:
    return [kernel.schedule.family for kernel in compiled(graph).kernels]


def compiled(graph: TensorGraph) -> CompiledRegion:
    return compile_region(graph, *arguments_of(graph), CompileOptions(CPU))


FLAGS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 17, 17), (3, 105, 17), (16, 20, 32), (19, 17, 49), (35, 18, 70)])
def test_every_edge(m: int, k: int, n: int, flags: tuple[bool, bool]) -> None:
    graph = region("g", [product(m, k, n, *flags)])
    assert families(graph) == [matmul_in_tasks.NAME]
    check_all(graph, interpret_cpu=True)


@settings(max_examples=30)
@given(st.integers(1, 70), st.integers(17, 300), st.integers(17, 1100), st.sampled_from(FLAGS))
def test_sizes(m: int, k: int, n: int, flags: tuple[bool, bool]) -> None:
    check_all(region("g", [product(m, k, n, *flags)]))
