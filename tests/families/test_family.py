"""Another kernel family is one module and its name in one list: here all of it is this file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_host
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.compiler.apply_template import apply_template
from tf_stitch.compiler.block_threads import with_threads
from tf_stitch.compiler.template_candidates import candidates
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families import registry
from tf_stitch.families.elementwise import lower_elementwise
from tf_stitch.families.family import GRID, KernelFamily, Request, Slot, Tilings, mapped
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.targets import registry as targets
from tf_stitch.templates import LevelKind, parse_template

B = p.B
ELEMENTS = 5000


def propose(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """Exponentials alone, in blocks of two warps, or in tasks of 100 elements."""
    if {n.kind for n in pattern.nodes} != {OpKind.EXP}:
        raise ScheduleError("no exponentials")
    node = pattern.outputs[0]
    threads, each = (2 * device.warp, 1) if device.simt else (1, 100)
    mapping = ThreadMapping(ceil_div(node.type.numel, threads * each), threads, 1, 1, 1, each, warp=device.warp)
    return [KernelSchedule("exponentials", pattern, node, Domain(1, node.type.numel), mapping)]


def retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    threads = request.extent("threads", schedule.mapping.threads)
    return mapped(schedule, threads=threads, grid=ceil_div(schedule.domain.cols, threads))


def tried(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    yield "*[GRID-CTA_96];"


TILINGS = Tilings(((GRID, Slot(LevelKind.CTA, "threads", always=True)),), retile, tried)
EXPONENTIALS = KernelFamily("exponentials", propose, lower_elementwise, lambda schedule: TILINGS,
                            lambda schedule: (schedule.domain.cols,))


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name in the list, which targets refer to."""
    families = (EXPONENTIALS, *registry.FAMILIES)
    monkeypatch.setattr(registry, "FAMILIES", families)
    monkeypatch.setattr(targets, "TARGETS", tuple(replace(one, families=families) for one in targets.TARGETS))


def exponentials() -> TensorGraph:
    return region("g", [B.exp(B.input("x:0", DType.F32, (ELEMENTS,)))])


@pytest.mark.usefixtures("listed")
def test_its_kernels_are_right() -> None:
    graph = exponentials()
    values = random_values(graph)
    for device in (CPU, H200):
        built = compiled(graph, device)
        assert [kernel.schedule.family for kernel in built.kernels] == ["exponentials"]
        got = (run_host(graph, built, values) if device is CPU
               else run_on_cpu(graph, built, values, Adversary(Order.SHUFFLED)))
        compare(graph, got, *reference(graph, values), device.name)


@pytest.mark.usefixtures("listed")
def test_it_has_templates_of_its_own() -> None:
    [kernel] = compiled(exponentials(), H200).kernels
    assert str(template_of(kernel.schedule)) == "exp_1[GRID-CTA_64];"
    assert [str(template) for template in candidates(kernel.schedule, H200)] == ["*[GRID-CTA_96];"]
    tiled = apply_template(parse_template("*[GRID-CTA_96];"), kernel.schedule, H200, True)
    assert (tiled.mapping.threads, tiled.mapping.grid) == (96, ceil_div(ELEMENTS, 96))
    with pytest.raises(ScheduleError, match="dimension 0 of a exponentials has the levels GRID-CTA"):
        apply_template(parse_template("*[GRID-CTA_96-THREAD_4];"), kernel.schedule, H200, True)


@pytest.mark.usefixtures("listed")
def test_what_it_does_not_say_is_refused() -> None:
    [kernel] = compiled(exponentials(), H200).kernels
    with pytest.raises(ScheduleError, match="exponentials has no blocks of 128 threads"):
        with_threads(kernel.schedule, 128)


def test_a_target_has_the_families_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without transposes in tiles a target takes them element by element."""
    graph = region("g", [B.transpose(B.exp(B.input("x:0", DType.F32, (64, 96))), [1, 0])])
    assert [kernel.schedule.family for kernel in compiled(graph, H200).kernels] == ["transpose"]
    monkeypatch.setattr(targets, "TARGETS", tuple(
        replace(one, families=tuple(f for f in one.families if f.name != "transpose")) for one in targets.TARGETS))
    assert {kernel.schedule.family for kernel in compiled(graph, H200).kernels} == {"elementwise"}
