"""A target that the package does not know (tests/support/hip_target.py) gets the kernels that the others get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.differential.runner import compare, compiled, random_values, reference, region
from tests.differential.test_cuda_on_cpu import GRAPHS
from tests.golden import test_plans as goldens
from tests.lowering import test_groups as groups
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, Order, build, run_on_cpu
from tests.support.hip_target import HIP_DEVICE, HIP_MACHINE, HIP_TARGET
from tests.support.tiers import each_commit
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.targets import registry

GOLDEN = [goldens.softmax, goldens.layernorm, goldens.layernorm_backward, goldens.adam, goldens.cross_entropy,
          goldens.motivating_example, goldens.figure_7a, *goldens.SCRIPTS]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "TARGETS", (*registry.TARGETS, HIP_TARGET))


@pytest.mark.parametrize("graph", GOLDEN, ids=lambda f: f.__name__)
def test_the_goldens_are_written(graph: Callable[[], TensorGraph]) -> None:
    """With its intrinsics and none of CUDA's; a compiler takes them."""
    built = compiled(graph(), HIP_DEVICE)
    assert built.source.count("__shfl_xor(value") == 1
    assert "#define TFS_WARP 64" in built.source
    assert all(kernel.program.warp == 64 and kernel.program.cluster == 1 for kernel in built.kernels)
    said = [s for kernel in built.kernels for s in statements(kernel.program.body)]
    assert not any(isinstance(s, k.AsyncCopy | k.Attention | k.ClusterBarrier) for s in said)
    build(built.source, HIP_MACHINE)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("adversary", each_commit([Adversary(Order.BEHIND)],
                                                   [Adversary(Order.BEHIND), Adversary(Order.SHUFFLED)]), ids=str)
def test_its_kernels_are_right(name: str, adversary: Adversary) -> None:
    graph = GRAPHS[name]()
    check(graph, adversary)


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_its_blocks_wait_for_each_other(adversary: Adversary) -> None:
    """With few processors, on which those of a kernel with grid barriers are resident."""
    name, make = next(iter(groups.CASES.items()))
    few = replace(HIP_DEVICE, processors=groups.SMALL.processors, profile=groups.SMALL.profile)
    built = check(region(name, make()), adversary, few)
    assert [s.cooperative for s in built.executable.steps if isinstance(s, DeviceLaunch)] == [True]


def check(graph: TensorGraph, adversary: Adversary, device: DeviceSpec = HIP_DEVICE) -> CompiledRegion:
    built = compiled(graph, device, solver="greedy")
    values = random_values(graph)
    got = run_on_cpu(graph, built, values, adversary, machine=HIP_MACHINE)
    compare(graph, got, *reference(graph, values), f"on a CPU, {adversary}")
    return built


def test_warps_are_as_wide_as_the_device_says() -> None:
    """A row of 64 threads reduces by shuffles alone."""
    graph = region("g", [goldens.p.softmax(goldens.B.input("x:0", goldens.F32, (512, 256)))])
    [narrow], [wide] = (compiled(graph, device).kernels for device in (H200, HIP_DEVICE))
    assert (narrow.schedule.mapping.row_threads, wide.schedule.mapping.row_threads) == (32, 64)
    assert not any(isinstance(s, k.Barrier) for s in statements(wide.program.body))


def multiplied(rows: int, terms: int, columns: int) -> TensorGraph:
    x = goldens.B.input("x:0", goldens.F32, (rows, terms))
    return region("g", [goldens.B.exp(goldens.B.dot(x, goldens.B.input("w:0", goldens.F32, (terms, columns))))])


@pytest.mark.parametrize(("rows", "terms", "columns"), [(4096, 8, 4096), (1, 512, 512)])
def test_library_calls_are_those_of_the_target(rows: int, terms: int, columns: int, monkeypatch: pytest.MonkeyPatch
                                               ) -> None:
    """Without a library kernels compute matmuls of few terms, or of few rows."""
    graph = multiplied(rows, terms, columns)
    alone = replace(HIP_TARGET, libraries=())
    monkeypatch.setattr(registry, "TARGETS", (*registry.TARGETS[:-1], alone))
    built = compiled(graph, HIP_DEVICE)
    assert not built.calls
    assert built.kernels


def test_what_needs_a_library_says_so_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = multiplied(256, 512, 512)
    assert compiled(graph, HIP_DEVICE).calls
    monkeypatch.setattr(registry, "TARGETS", (*registry.TARGETS[:-1], replace(HIP_TARGET, libraries=())))
    with pytest.raises(ScheduleError, match="no kernel family and no library takes dot"):
        compiled(graph, HIP_DEVICE)


def test_launches_are_those_of_a_queue() -> None:
    built = compiled(goldens.softmax(), HIP_DEVICE)
    assert all(isinstance(step, DeviceLaunch) for step in built.executable.steps)
