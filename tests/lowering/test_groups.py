"""Kernels fused by grid barriers, on a device small enough for the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import build_cubin, compare, compiled, random_values, reference, region, run_kernel_ir
from tf_stitch.compiler.reverse_block_order import backwards
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.placement.executable_format import Space
from tf_stitch.schedule.kernel_schedule import COOPERATIVE, Scheme

B, F32 = p.B, DType.F32
SMALL = replace(H200, processors=4, profile=replace(H200.profile, barrier=((8.0, 0.0),)))
"""Where a barrier costs nothing, little work is fused, too."""


def x(*shape: int) -> Node:
    return B.input("x:0", F32, shape)


def batchnorm(n: int, channels: int) -> list[Node]:
    per_channel = [B.input(f"{name}:0", F32, (channels,)) for name in ("gamma", "beta", "mean", "variance")]
    return p.batchnorm_training(x(n, channels), *per_channel)[0]


def layernorm_backward(rows: int, cols: int) -> list[Node]:
    matrices = [B.input(f"{name}:0", F32, (rows, cols)) for name in ("x", "dy")]
    per_row = [B.input(f"{name}:0", F32, (rows, 1)) for name in ("mean", "rstd")]
    return p.layernorm_backward(*matrices, B.input("gamma:0", F32, (cols,)), *per_row)


CASES = {"softmax": lambda: [p.softmax(x(1, 8192))], "sum": lambda: [B.sum(x(2, 12288), [1])],
         "batchnorm": lambda: batchnorm(512, 64), "layernorm_backward": lambda: layernorm_backward(32, 1024)}


@pytest.mark.parametrize("name", CASES)
def test_one_cooperative_launch_computes_the_same(name: str) -> None:
    graph = region(name, CASES[name]())
    built = compiled(graph, SMALL)
    (step,) = built.executable.steps
    assert isinstance(step, DeviceLaunch)
    assert step.cooperative
    assert step.args[-1].space is Space.BARRIER
    (kernel,) = built.kernels
    assert kernel.schedule.family == COOPERATIVE
    assert step.grid <= kernel.program.resident * SMALL.processors
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")
    build_cubin(built)


def test_values_between_groups_are_global() -> None:
    """A3: sums of parts cross the grid barrier, what is element-wise stays in registers."""
    (kernel,) = compiled(region("batchnorm", batchnorm(512, 64)), SMALL).kernels
    found = {node.kind.value: scheme for node, scheme in kernel.schedule.schemes.items()}
    assert found["sum"] is Scheme.GLOBAL
    assert found["mul"] is Scheme.LOCAL
    scratch = [b for b in kernel.program.buffers if b.mode is k.Mode.SCRATCH]
    assert len(scratch) >= 4, "sums of parts of x and its square, mean, scale"


def test_regions_that_become_cuda_graphs_keep_their_kernels() -> None:
    """A node of a graph costs less than a grid barrier."""
    y = B.input("a:0", F32, (64, 64))
    for i in range(3):
        y = B.dot(y, B.input(f"b{i}:0", F32, (64, 64)))
    built = compiled(region("matmuls", [B.sum(x(2, 12288), [1]), y]), SMALL)
    assert len(built.executable.steps) > 3
    assert not any(kernel.program.cooperative for kernel in built.kernels)


def test_blocks_of_large_loops_run_in_reverse() -> None:
    """What a loop over a tensor touched last is in the cache: the next one starts there."""
    graph = region("batchnorm", batchnorm(1 << 14, 256))
    (kernel,) = compiled(graph, H200).kernels
    loops = [s for s in kernel.program.body if isinstance(s, k.GridLoop)]
    large = [s.backwards for s in loops if s.blocks > kernel.program.grid]
    assert large == [False, True]


def test_kernels_beyond_the_cache_turn_round_too() -> None:
    kernels = compiled(region("batchnorm", batchnorm(1 << 18, 256)), H200).kernels
    assert len(kernels) > 1, "what a launch saves is less than what a grid loop loses"
    last = kernels[-1].program
    assert [s.backwards for s in last.body if isinstance(s, k.GridLoop)] == [True]
    assert not last.cooperative


def test_grid_barriers_can_be_left_out() -> None:
    built = compiled(region("batchnorm", batchnorm(512, 64)), SMALL, barriers=False)
    assert len(built.executable.steps) >= 3
    assert not any(kernel.program.cooperative for kernel in built.kernels)


def test_blocks_of_a_kernel_may_run_backwards() -> None:
    graph = region("exp", [B.exp(x(9, 999))])
    built = compiled(graph, SMALL)
    (kernel,) = built.kernels
    turned = replace(built, programs={name: tuple(backwards(replace(kernel, program=p)).program for p in programs)
                                      for name, programs in built.programs.items()})
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, turned, values), want, allowed, "kernel IR")


SHARED = {"softmax": lambda: [p.softmax(x(2, 16400))], "odd": lambda: [p.softmax(x(2, 16389))],
          "layernorm": lambda: [p.layernorm(x(1, 20000), B.input("gamma:0", F32, (20000,)),
                                            B.input("beta:0", F32, (20000,)))]}


@pytest.mark.parametrize("name", SHARED)
def test_blocks_share_long_rows(name: str) -> None:
    """A6 and A4: each block keeps its part of the row in registers; the blocks of a row wait for each other."""
    graph = region(name, SHARED[name]())
    built = compiled(graph, SMALL)
    (step,), (kernel,) = built.executable.steps, built.kernels
    mapping = kernel.schedule.mapping
    assert isinstance(step, DeviceLaunch)
    assert step.cooperative
    assert mapping.row_blocks > 1
    assert step.grid % mapping.row_blocks == 0
    assert step.grid <= kernel.program.resident * SMALL.processors
    loads = [s for s in kernel.program.body if isinstance(s, k.GridLoop)]
    assert len(loads) == 1
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")
    build_cubin(built)


@pytest.mark.parametrize("what", ["a block of -inf", "all -inf", "inf", "nan"])
def test_blocks_of_a_softmax_meet_once(what: str) -> None:
    """Each sums relative to its own maximum, and keeps exponentials where their operands were."""
    graph = region("softmax", [p.softmax(x(2, 16400))])
    built = compiled(graph, SMALL)
    (kernel,) = built.kernels
    (loop,) = (s for s in kernel.program.body if isinstance(s, k.GridLoop))
    assert sum(isinstance(s, k.GroupBarrier) for s in loop.body) == 1
    assert [s.instead_of is not None for s in kernel.schedule.staged] == [False, True]
    assert sum(isinstance(s, k.Array) and s.name.startswith("staged") for s in loop.body) == 1
    values = random_values(graph)
    row, m = values["x:0"][0], kernel.schedule.mapping
    of_block = np.arange(row.size) // (m.threads * m.vector) % m.row_blocks
    if what.endswith("-inf"):
        row[of_block == 1 if what.startswith("a block") else slice(None)] = -np.inf
    else:
        row[9000] = float(what)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")


def test_blocks_of_a_softmax_meet_once_with_an_element_for_each_thread() -> None:
    """No loop is written then, and none forgets exponentials that are relative to a block's own maximum."""
    graph = region("softmax", [p.softmax(x(1, 16389))])
    built = compiled(graph, H200)
    (kernel,) = built.kernels
    mapping = kernel.schedule.mapping
    assert (mapping.items, mapping.vector) == (1, 1)
    assert mapping.row_blocks > 1
    assert kernel.schedule.relative is not None
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")


def test_rows_too_long_for_all_registers_are_split() -> None:
    built = compiled(region("softmax", [p.softmax(x(1, 1 << 23))]), H200)
    assert all(kernel.schedule.mapping.row_blocks == 1 for kernel in built.kernels)
