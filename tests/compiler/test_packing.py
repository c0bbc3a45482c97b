"""Small kernels that do not depend on each other share a launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import Values, build_cubin, compiled, random_values, reference, region
from tests.planning.test_matmul_choice import recurrent
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, Order, run_on_cpu
from tests.support.layers import layers
from tests.support.numbers import set_numbers
from tf_stitch.compiler.packing import PACKED_SHARED_BYTES
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.passes.matmuls_to_kernels import in_kernel
from tf_stitch.placement.executable import DeviceLaunch

B = Builder()


def test_independent_kernels_share_a_launch() -> None:
    launches = compiled(region("layers", layers(24)), H200).executable.steps  # type: ignore[arg-type]
    assert len(launches) == 1
    assert isinstance(launches[0], DeviceLaunch)
    assert len(launches[0].args) == 48


def test_large_kernels_stand_alone() -> None:
    def launches(rows: int) -> int:
        inputs = [B.input(f"x{i}:0", DType.F32, (rows, 256)) for i in range(4)]
        return len(compiled(region("exps", [B.exp(x) for x in inputs]), H200).executable.steps)

    assert launches(64) == 1
    assert launches(1 << 12) == 4
    assert len({launches(size("n", rows)) for rows in (4, 64, 1 << 12)}) == 1, "all sizes have the same launches"
    assert launches(64 * size("n", 1) * size("m", 1)) == 4


def matmuls(*columns: int) -> list[Node]:
    """Of the same 16 rows, by kernels of ours, whose blocks have much shared memory."""
    rows = B.input("rows:0", DType.F32, (16, 768))
    return [in_kernel(B.dot(rows, B.input(f"w{i}:0", DType.F32, (768, n)))) for i, n in enumerate(columns)]


def test_blocks_of_equal_shared_memory_share_a_launch() -> None:
    """Query, key and value of a decoder; in clusters, too, of which every kernel has whole ones."""
    built = compiled(region("layer", matmuls(768, 768, 768)), H200)
    step, = built.executable.steps
    assert isinstance(step, DeviceLaunch)
    assert step.shared_bytes > PACKED_SHARED_BYTES
    clusters = {kernel.program.cluster for kernel in built.kernels}
    assert len(clusters) == 1
    assert all(kernel.program.grid % kernel.program.cluster == 0 for kernel in built.kernels)


def test_blocks_of_other_shared_memory_do_not() -> None:
    """A block that needs less would have as much, and half of the blocks would begin when others have ended."""
    short, long = (in_kernel(B.dot(B.input(f"x{k}:0", DType.F32, (16, k)), B.input(f"y{k}:0", DType.F32, (k, 768))))
                   for k in (768, 3072))
    built = compiled(region("two", [short, long]), H200)
    one, other = (kernel for kernel in built.kernels)
    assert one.program.cluster == other.program.cluster
    assert min(one.shared_bytes, other.shared_bytes) > PACKED_SHARED_BYTES
    assert len(built.executable.steps) == 2


def product(rows: int, terms: int, columns: int) -> Node:
    """By a kernel of ours."""
    left, right = B.input(f"x{rows}_{terms}:0", DType.F32, (rows, terms)), (terms, columns)
    return in_kernel(B.dot(left, B.input(f"y{terms}_{columns}:0", DType.F32, right)))


UNLIKE = {"whole clusters": (1024, 40), "blocks left over": (1000, 41)}
"""Columns of a matmul, and rows of a sum, whose blocks are in no clusters; in all whole clusters of four, or not."""


def unlike(columns: int, rows: int) -> TensorGraph:
    """A matmul whose blocks are in clusters, of much memory, and two others whose are not, of less and of none."""
    add = B.add(*(B.input(f"{name}:0", DType.I32, (rows, 256)) for name in "ab"))  # beyond the end: other than zones
    return region("unlike", [product(32, 256, columns), product(16, 768, 768), add])


@pytest.mark.parametrize("which", UNLIKE)
def test_blocks_without_clusters_share_a_launch_of_clusters(which: str) -> None:
    """What a round of a recurrent network has: cells, and the products that the layer above begins with."""
    graph = unlike(*UNLIKE[which])
    built = compiled(graph, H200)
    assert sorted({kernel.program.cluster for kernel in built.kernels}) == [1, 4]
    assert len({kernel.shared_bytes for kernel in built.kernels}) == 3
    (step,), (programs,) = built.executable.steps, built.programs.values()
    assert isinstance(step, DeviceLaunch)
    assert step.shared_bytes == max(kernel.shared_bytes for kernel in built.kernels)
    assert step.grid == sum(-(-program.grid // 4) * 4 for program in programs)
    assert (step.grid > sum(program.grid for program in programs)) is (which == "blocks left over")
    assert f"#define launch_0_RESIDENT {-(-step.grid // H200.processors)}\n" in built.source, "of all kernels' blocks"
    values = random_values(graph)
    wanted = reference(graph, values)[0]
    for adversary in ADVERSARIES:
        got = run_on_cpu(graph, built, values, adversary)
        for key, value in wanted.items():
            np.testing.assert_allclose(got[key], value, rtol=0, atol=6e-3 * np.abs(value).max())
    build_cubin(built)


def scaled(values: Values) -> Values:
    """Weights (w, u and v) of a cell such that its gates are between 0 and 1, not at the ends."""
    return {key: value / 16 if key[0] in "wuv" else value for key, value in values.items()}


def test_cells_of_a_round_are_the_same_in_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, weights on their way before dependencies are awaited."""
    graph = recurrent(2, 4, units=256)
    values = scaled(random_values(graph))
    together = compiled(graph, H200)
    assert [1, 2] in [sorted({one.cluster for one in programs}) for programs in together.programs.values()]
    assert "::prefetch(" in together.source
    got = run_on_cpu(graph, together, values, Adversary(Order.SHUFFLED))
    set_numbers(monkeypatch, H200, "choices", pack_us=10.0)
    apart = compiled(graph, H200)
    assert len(apart.executable.steps) > len(together.executable.steps)
    wanted = run_on_cpu(graph, apart, values, Adversary(Order.BEHIND))
    for key, value in reference(graph, values)[0].items():
        np.testing.assert_array_equal(got[key], wanted[key])
        np.testing.assert_allclose(got[key], value, rtol=0, atol=2e-3 * np.abs(value).max())
    build_cubin(together)


def test_launches_that_gain_nothing_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = unlike(*UNLIKE["whole clusters"])
    set_numbers(monkeypatch, H200, "choices", pack_us=10.0)
    assert len(compiled(graph, H200).executable.steps) == 3
    set_numbers(monkeypatch, H200, "choices", pack_us=1.0)
    wide = B.exp(B.input("wide:0", DType.F32, (4000, 256)))  # 1,000 blocks, of which 660 find room
    assert len(compiled(region("wide", [product(16, 768, 768), wide]), H200).executable.steps) == 2


def test_clusters_of_two_sizes_stay_apart() -> None:
    """The blocks of a cluster know each other by their places in it."""
    launches = [{kernel.program.cluster for kernel in compiled(region("one", [one]), H200).kernels}
                for one in (product(16, 768, 768), product(16, 384, 768))]
    assert launches == [{4}, {2}]
    assert len(compiled(region("two", [product(16, 768, 768), product(16, 384, 768)]), H200).executable.steps) == 2


def rows(count: int) -> TensorGraph:
    """Softmax of rows that blocks share."""
    found = [B.input(f"x{i}:0", DType.F32, (2, 100_000)) for i in range(count)]
    return region("rows", [p.softmax(x) for x in found])


def test_a_pack_of_clusters_gives_the_same() -> None:
    graph = region("layer", matmuls(256, 256))
    built = compiled(graph, H200)
    assert {kernel.program.cluster for kernel in built.kernels} == {4}
    assert len(built.executable.steps) == 1
    values = random_values(graph)
    wanted = reference(graph, values)[0]
    got = run_on_cpu(graph, built, values, Adversary(Order.BEHIND))
    for key, value in wanted.items():
        np.testing.assert_allclose(got[key], value, rtol=0, atol=6e-3 * np.abs(value).max())


def test_kernels_whose_blocks_wait_stand_alone() -> None:
    built = compiled(rows(2), replace(H200, largest_cluster=1))
    assert all(kernel.program.looped for kernel in built.kernels)
    assert len(built.executable.steps) == 2


def test_packs_end_where_kernel_parameters_end() -> None:
    steps = compiled(region("layers", layers(300)), H200).executable.steps  # type: ignore[arg-type]
    assert len(steps) == 2
    assert all(isinstance(s, DeviceLaunch) and len(s.args) * 8 <= 4096 for s in steps)


def test_packs_without_gain_stay_apart_whatever_a_profile_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in profiles of devices that lack the number."""
    set_numbers(monkeypatch, H200, "choices", pack_us=0.0)
    x = B.input("x:0", DType.F32, (300,))
    assert len(compiled(region("one", [B.exp(x)]), H200).executable.steps) == 1
