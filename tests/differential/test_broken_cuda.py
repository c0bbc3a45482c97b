"""Kernels whose source lacks a barrier, or worse, do not pass for right when they run on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.differential.runner import compare, compiled, random_values, reference, region
from tests.differential.test_cuda_on_cpu import GRAPHS, for_h200
from tests.families.row import test_cross_block_reduction as clusters
from tests.lowering import test_groups as groups
from tests.support.cuda_on_cpu import ADVERSARIES, run_on_cpu
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.ir.graph import TensorGraph

Built = tuple[TensorGraph, CompiledRegion]
WAIT = "    while (!((before ^ tfs_arrived(counter)) & 0x80000000u)) tfs_sleep();\n"


def of_kind(name: str) -> Built:
    graph = GRAPHS[name]()
    return graph, for_h200(graph)


def waiting(name: str) -> Built:
    graph = region(name, (groups.CASES | groups.SHARED)[name]())
    return graph, compiled(graph, groups.SMALL)


def cluster() -> Built:
    output, tiling, keep = clusters.CASES["softmax"]
    graph = region("softmax", [output()])
    return graph, clusters.clustered(graph, tiling, keep)


BREAKS: dict[str, tuple[Callable[[], Built], str, str]] = {
    "a barrier of the block": (lambda: of_kind("transpose"),
                               "  __syncthreads();\n  // and written", "  // and written"),
    "warps go on too early": (lambda: of_kind("rows of 3000"), "    Barrier::wait();\n    i = 0;\n", "    i = 0;\n"),
    "nobody waits at the grid barrier": (lambda: waiting("batchnorm"), WAIT, ""),
    "a block comes before its threads": (lambda: waiting("sum"), "bool first) {\n  __syncthreads();\n",
                                         "bool first) {\n"),
    "fused kernels do not wait": (lambda: waiting("sum"), "  tfs_grid_barrier(barrier", "  (void)(barrier"),
    "one block too few arrives": (lambda: waiting("sum"), "0x80000000u - (blocks - 1)", "0x80000000u - blocks"),
    "a thread misses a barrier": (lambda: waiting("sum"), "bool first) {\n  __syncthreads();\n",
                                  "bool first) {\n  if (threadIdx.x) __syncthreads();\n"),
    "blocks of a cluster do not wait": (cluster, "  tfs_cluster_barrier();\n", "\n"),
    "a cluster has not started": (cluster, "  tfs_cluster_started();\n", "\n"),
    "an index leaves its array": (lambda: of_kind("rows of 1000"), "int lane = 0; lane < 4; ++lane",
                                  "int lane = 0; lane <= 4; ++lane"),
    "a vector is not aligned": (lambda: of_kind("elements"), "tfs_vector<float, 4>*)(", "tfs_vector<float, 4>*)(1 + ")}


@pytest.mark.parametrize("name", BREAKS)
def test_is_seen(name: str) -> None:
    make, old, new = BREAKS[name]
    graph, built = make()
    assert old in built.source
    broken = replace(built, source=built.source.replace(old, new))
    values = random_values(graph)
    want, allowed = reference(graph, values)
    said = []
    for adversary in ADVERSARIES:
        try:
            compare(graph, run_on_cpu(graph, broken, values, adversary), want, allowed, "wrong")
        except AssertionError as error:
            said.append(str(error))
    assert said
