"""Who is in an arena, and when: of regions of the zoo, planned for an H200, too."""

from __future__ import annotations

import gzip

import pytest

from tests.differential import patterns as p
from tests.differential.runner import keys_of
from tests.golden.test_zoo_plans import ZOO
from tests.schedule.long_rows import chain
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region, planned_kernels
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.text_parser import parse_graphs
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.placement.memory_profile import memory_profile

B = p.B
MIB = 1 << 20
DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)


def placed(graph: TensorGraph, device: DeviceSpec) -> BufferPlan:
    return planned_kernels(graph, *keys_of(graph), CompileOptions(device)).buffers


@DEVICES
@pytest.mark.parametrize("name", ["perceptron", "encoder_inference", "word2vec_train", "logistic"])
def test_the_curve_is_that_of_the_arena(name: str, device: DeviceSpec) -> None:
    text = gzip.decompress((ZOO / f"{name}.region.txt.gz").read_bytes()).decode()
    for graph in parse_graphs(text):
        plan = placed(graph, device)
        profile = memory_profile(plan)
        assert max(profile.alive, default=0) == plan.live_bytes
        assert sum(nbytes for _, nbytes in profile.holders) == plan.live_bytes
        assert profile.least_bytes <= plan.live_bytes
        assert profile.alive == tuple(sum(life.nbytes for life in plan.lives.values() if life.first <= t <= life.last)
                                      for t in range(len(profile.alive)))


@DEVICES
def test_what_is_kept_for_a_gradient_is_alive_in_every_order(device: DeviceSpec) -> None:
    """Results of matmuls, each read by the next one and, in the end, by a matmul of all: none can go before."""
    x = B.input("i0", DType.F32, (256, 256))
    values = [x]
    for _ in range(4):
        values.append(B.dot(values[-1], values[-1]))
    total = values[-1]
    for value in reversed(values[1:-1]):
        total = B.dot(total, value)
    profile = memory_profile(placed(TensorGraph("region", [("o0", total)]), device))
    assert profile.least_bytes == max(profile.alive) >= 4 * 256 * 256 * 4


@DEVICES
def test_a_region_without_an_arena(device: DeviceSpec) -> None:
    graph = TensorGraph("region", [("o0", B.exp(B.input("i0", DType.F32, (64,))))])
    profile = memory_profile(placed(graph, device))
    assert (profile.least_bytes, profile.holders, sum(profile.alive)) == (0, (), 0)
    assert compile_region(graph, *keys_of(graph), CompileOptions(device)).executable.arena == ()


def test_groups_of_one_kernel_may_share_memory_between_grid_barriers() -> None:
    plan = placed(chain(1, 8193, 2), H200)
    profile = memory_profile(plan)
    assert len(profile.alive) > len(plan.kernels) == 1
    assert 0 < profile.least_bytes <= plan.live_bytes


def test_another_order_could_do_with_less() -> None:
    """A small result is there while a large value is, since it was computed before: it need not be."""
    def matrix(number: int, rows: int, cols: int) -> Node:
        return B.input(f"i{number}", DType.F32, (rows, cols))

    small = B.dot(B.dot(matrix(0, 512, 512), matrix(1, 512, 1024)), matrix(2, 1024, 512))
    large = B.dot(matrix(3, 1024, 512), matrix(4, 512, 1024))
    other = B.dot(matrix(5, 512, 1024), B.dot(large, matrix(6, 1024, 64)))
    plan = placed(TensorGraph("region", [("o0", B.dot(small, other))]), CPU)
    assert plan.live_bytes >= 5 * MIB
    assert 4 * MIB <= memory_profile(plan).least_bytes < 4.5 * MIB
