"""Schedules as templates, and templates as schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.compiler.apply_template import apply_template
from tf_stitch.compiler.tilings import layout_of, template_of
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError, SourceLoc
from tf_stitch.families.mixed import MIXED
from tf_stitch.families.registry import FAMILIES, lower
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme
from tf_stitch.schedule.op_labels import op_labels
from tf_stitch.templates import ANY_OP, Level, LevelKind, OpSchedule, Template, Tiling, parse_template

B = p.B


def norm(rows: int, cols: int) -> Node:
    return p.layernorm(x(rows, cols), x(cols), x(cols))


OUTPUTS = {
    "softmax": p.softmax(x(512, 1000)), "short rows": p.softmax(x(4_000_000, 32)), "odd": p.softmax(x(8192, 77)),
    "two places": p.softmax(x(4096, 40_000)), "cluster": p.layernorm(x(2048, 65_536), x(65_536), x(65_536)),
    "shared memory": p.softmax(x(64, 40_000)), "several blocks": p.softmax(x(64, 500_000)),
    "one row": B.sum(x(1, 50_000_000), [1]), "three rows": p.softmax(x(3, 1_000_003)), "norm": norm(2048, 768),
    "row sum": B.sum(x(7_500_000, 32), [1]), "column sum": B.sum(x(300, 1024), [0]),
    "middle axis": B.sum(x(6, 50, 129), [1]), "flat": B.exp(x(100, 1000)), "broadcast": B.add(x(100, 1000), x(1000)),
    "transpose": B.transpose(B.exp(x(64, 100)), [1, 0]), "batched transpose": B.transpose(x(3, 64, 100), [0, 2, 1]),
    "scan": B.cumsum(x(50, 70), False, False), "arg max": B.arg_reduce(OpKind.ARGMAX, x(8, 9000), 1, DType.I32)}


def proposals(output: Node, device: DeviceSpec, *more: Node) -> list[KernelSchedule]:
    found: list[KernelSchedule] = []
    for family in FAMILIES:
        try:
            found += family.propose(whole(output, *more), device, True)
        except ScheduleError:
            continue
    return found


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_schedule_is_what_its_template_says(name: str, device: DeviceSpec) -> None:
    found = proposals(OUTPUTS[name], device)
    assert found
    for schedule in found:
        template = template_of(schedule)
        assert parse_template(str(template)) == template
        assert apply_template(template, schedule, device, True) == schedule


def test_row_and_column_sums_of_a_gradient() -> None:
    x_, dy, gamma, mean, rstd = x(2048, 768), x(2048, 768), x(768), x(2048, 1), x(2048, 1)
    gamma_sums = B.sum(B.reshape(B.mul(dy, x_), (64, 32, 768)), [1])
    row = B.sum(B.mul(dy, gamma), [1], True)
    dx = B.mul(rstd, B.sub(B.sub(dy, mean), row))
    for device in (CPU, H200):
        (schedule,) = (s for s in proposals(dx, device, gamma_sums) if s.family == MIXED.name)
        assert apply_template(template_of(schedule), schedule, device, True) == schedule


def gpu(output: Node) -> KernelSchedule:
    return proposals(output, H200)[-1]


def tiled(output: Node, template: str, device: DeviceSpec = H200) -> KernelSchedule:
    return apply_template(parse_template(template), proposals(output, device)[-1], device, True)


def test_what_people_read() -> None:
    assert str(template_of(gpu(p.softmax(x(512, 1000))))) == (
        "max_1[GRID-WARP_4,THREAD_8-CTA_32-THREAD_4]; div_1[GRID-WARP_4,THREAD_8-CTA_32-THREAD_4];")
    assert str(template_of(proposals(p.softmax(x(8, 100)), CPU)[0])) == (
        "max_1[GRID,THREAD]; exp_1[GRID,THREAD]S; div_1[GRID,THREAD];")


def test_dimensions_of_the_op_fold_to_rows_and_columns() -> None:
    """Figure 5 (c): [GRID,WARP,CTA] of a reduction of f32[256,16,64]."""
    output = B.mul(B.sum(x(256, 16, 64), [2], True), x(256, 16, 1))
    m = tiled(output, "*[GRID,WARP,CTA];").mapping
    assert (m.grid, m.threads, m.row_threads, m.rows_per_block) == (256, 512, 32, 16)
    m = tiled(output, "*[GRID_128-WARP_2,WARP,CTA];").mapping
    assert (m.grid, m.threads, m.rows_per_block) == (128, 1024, 32)


def test_a_thread_can_reduce_by_itself() -> None:
    """The paper's [GRID,CTA,CTA,THREAD]: the reduction is element-wise work."""
    m = tiled(B.sum(x(64, 4, 8, 6), [3]), "*[GRID,CTA,CTA,THREAD];").mapping
    assert (m.row_threads, m.items, m.threads, m.rows_per_block) == (1, 0, 128, 128)


@pytest.mark.parametrize(("template", "scheme", "items"), [
    ("*[GRID,THREAD_10-CTA_1024-THREAD_4];", Scheme.LOCAL, 10),
    ("*[GRID,THREAD-CTA_512-THREAD_4]S;", Scheme.REGIONAL, 0),
    ("*[GRID,THREAD-CTA_512-THREAD_4];", None, 0)])
def test_where_a_row_stays(template: str, scheme: Scheme | None, items: int) -> None:
    row = x(4096, 40_000)
    schedule = tiled(B.sub(row, B.mean(row, [1], True)), template)
    assert schedule.mapping.items == items
    assert {s.scheme for s in schedule.staged} == ({scheme} if scheme else set())


def test_single_values_are_kept() -> None:
    tiling = "GRID,THREAD-GRID_32-CTA_512-THREAD_4"
    schedule = tiled(p.softmax(x(64, 500_000)), f"max_1[{tiling}]; exp_1[{tiling}]S;")
    assert [s.node.kind for s in schedule.staged] == [OpKind.EXP]
    assert (schedule.mapping.row_blocks, schedule.launched % 32, schedule.resident) == (32, 0, 2)


@pytest.mark.parametrize(("name", "template", "why"), [
    ("softmax", "*[GRID-CTA_3,THREAD_3-CTA_96-THREAD_4];", "96 threads share a row"),
    ("softmax", "*[GRID-WARP_4,THREAD_4-CTA_64-THREAD_4];", "a warp has 32 threads"),
    ("softmax", "*[GRID-CTA_64,THREAD_8-CTA_32-THREAD_4];", "a block of 2048 threads"),
    ("softmax", "*[GRID,THREAD_4-CTA_32-THREAD_4];", "take a row of 1000 in 8, not in 4"),
    ("softmax", "*[GRID,CTA_128-THREAD_8];", "accesses of 8"),
    ("softmax", "*[GRID-CTA_4,THREAD-CTA_32]S;", "the block to itself"),
    ("softmax", "*[GRID];", "1 dimensions: sum has 2, the kernel 2|1 dimensions: max has 2, the kernel 2"),
    ("softmax", "*[GRID-WARP_4,WARP];", "WARP: dimension 1 of a row_reduction has the levels THREAD-THREAD-GRID-CTA-T"),
    ("softmax", "mul_7[GRID,CTA];", "the kernel has no mul_7; its ops are input_1, max_1"),
    ("softmax", "max_1[GRID,CTA]; div_1[GRID-WARP_4,CTA];", "div_1 has another tiling than max_1"),
    ("softmax", "*[GRID_100-WARP_4,CTA];", "GRID_100 where 512 elements in tiles of 4 take 128"),
    ("softmax", "max_1[GRID,CTA]; sub_1[GRID,CTA]S;", "sub does not go through memory"),
    ("several blocks", "*[GRID,THREAD-CTA_1024-THREAD_4]S;", "does not fit into memory of the block"),
    ("several blocks", "*[GRID,THREAD-GRID_500-CTA_512-THREAD_4];", "264 are resident"),
    ("several blocks", "*[GRID-CTA_2,THREAD-GRID_8-CTA_512-THREAD_4];", "one at a time"),
    ("several blocks", "*[GRID,THREAD-CLUSTER_16-CTA_512-THREAD_4];", "16 blocks; the device has those of 8"),
    ("several blocks", "*[GRID,THREAD-CLUSTER_3-CTA_512-THREAD_4];", "powers of two"),
    ("several blocks", "*[GRID,THREAD-CLUSTER_2-CTA_512-THREAD_4]S;", "parts of a row do not fit into shared memory"),
    ("several blocks", "*[GRID-CTA_2,THREAD-CLUSTER_8-CTA_512-THREAD_4];", "one at a time"),
    ("flat", "*[GRID-CTA_48];", "warps have 32"), ("transpose", "*[GRID-THREAD-CTA_3,GRID-CTA_32]S;", "|".join(
        ("3 rows of a tile", "1 dimensions", "dimension 0 of a elementwise", "2 dimensions")))])
def test_what_a_pattern_cannot_have(name: str, template: str, why: str) -> None:
    base = next(s for s in proposals(OUTPUTS[name], H200) if s.family != MIXED.name)
    loc = SourceLoc("model/op", "Op")
    with pytest.raises(ScheduleError, match=why) as error:
        apply_template(parse_template(template), _named(base, loc), H200, True)
    assert "model/op (Op): " in str(error.value), "it names the user's node"


def _named(schedule: KernelSchedule, loc: SourceLoc) -> KernelSchedule:
    """The schedule of equal nodes that come from a user's node."""
    for node in schedule.pattern.nodes:
        object.__setattr__(node, "loc", loc)
    return schedule


def test_sizes_that_change_keep_the_rules_tiling() -> None:
    schedule = gpu(p.softmax(x(512, 1000)))
    schedule = replace(schedule, domain=replace(schedule.domain, rows=size("n", 512)))
    with pytest.raises(ScheduleError, match="sizes change"):
        apply_template(template_of(gpu(p.softmax(x(512, 1000)))), schedule, H200, True)


NUMBERS = st.sampled_from([None, None, 1, 2, 3, 4, 8, 16, 32, 33, 64, 100, 128, 256, 1000, 1024, 4096])


@st.composite
def tilings(draw: st.DrawFn, schedule: KernelSchedule) -> tuple[Tiling, ...]:
    """Levels that the schedule's rule has, and now and then others."""
    dims = []
    for slots in layout_of(schedule):
        kinds = [slot.kind for slot in slots if draw(st.booleans())]
        if draw(st.integers(0, 9)) == 0:
            kinds.append(draw(st.sampled_from(LevelKind)))
        dims.append(tuple(Level(kind, draw(NUMBERS)) for kind in kinds or [LevelKind.THREAD]))
    return tuple(dims[:draw(st.sampled_from([1, 2, 3, 3, 3, 3]))])


@settings(max_examples=500)
@given(st.sampled_from(sorted(OUTPUTS)), st.sampled_from([CPU, H200]), st.booleans(), st.data())
def test_any_template_can_be_had_or_is_refused(name: str, device: DeviceSpec, shared: bool, data: st.DataObject
                                               ) -> None:
    schedule = data.draw(st.sampled_from(proposals(OUTPUTS[name], device)))
    op = data.draw(st.sampled_from([ANY_OP, *op_labels(schedule.pattern).values()]))
    template = Template((OpSchedule(op, data.draw(tilings(schedule)), shared),))
    try:
        kernel = lower(apply_template(template, schedule, device, True))
    except ScheduleError:
        return
    verify_program(kernel.program)
    again = apply_template(template_of(kernel.schedule), schedule, device, True)
    assert replace(again, schemes={}) == replace(kernel.schedule, schemes={})
