"""Schedule rules: what each takes, and why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import region
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.scan import SCAN
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.stitch_plan import Pattern, free_nodes, live_out, make_pattern, plannable
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme
from tf_stitch.schedule.phases import split_phases
from tf_stitch.schedule.rules.column_reduction import propose_column
from tf_stitch.schedule.rules.elementwise import propose_elementwise
from tf_stitch.schedule.rules.row_reduction import propose_row
from tf_stitch.schedule.rules.scan import propose_scan
from tf_stitch.schedule.vector_width import vector_width

B, F32, K = p.B, DType.F32, OpKind


def whole(*outputs: Node) -> Pattern:
    """Everything as one pattern."""
    graph = region("g", list(outputs))
    nodes = graph.nodes()
    free = free_nodes(nodes)
    return make_pattern(plannable(graph, free), users_of(nodes), frozenset(live_out(graph)), free)


def x(*shape: int, dtype: DType = F32) -> Node:
    return B.input(f"x{shape}:0", dtype, shape)


def gpu_row(columns: int, rows: int = 512, device: DeviceSpec = H200) -> KernelSchedule:
    return propose_row(whole(p.softmax(x(rows, columns))), device, True)[0]


@pytest.mark.parametrize(("columns", "row_threads", "items"), [
    (32, 8, 1), (128, 32, 1), (1000, 32, 8), (1024, 32, 8), (2048, 64, 8), (8192, 256, 8), (32768, 1024, 8),
    (33, 32, 2)])
def test_threads_of_a_row_grow_with_its_length(columns: int, row_threads: int, items: int) -> None:
    """A6: short rows are packed into a block, long ones get a block."""
    m = gpu_row(columns).mapping
    assert (m.row_threads, m.items) == (row_threads, items)
    assert m.threads == m.rows_per_block * m.row_threads
    assert m.grid * m.rows_per_block >= 512
    assert 128 <= m.threads <= 1024


@pytest.mark.parametrize(("columns", "scheme"),
                         [(1000, Scheme.LOCAL), (32_000, Scheme.LOCAL), (40_000, Scheme.REGIONAL), (80_000, None)])
def test_staged_rows_move_from_registers_to_shared_memory_to_nowhere(columns: int, scheme: Scheme | None) -> None:
    row = x(4, columns)
    schedules = propose_row(whole(B.sub(row, B.mean(row, [1], True))), H200, True)
    alone = next(s for s in schedules if s.mapping.row_blocks == 1).staged
    assert {s.scheme for s in alone} == ({scheme} if scheme else set())


@pytest.mark.parametrize(("columns", "kept"), [(20_000, [K.INPUT, K.EXP]), (30_000, [K.INPUT])])
def test_the_largest_block_computes_again_what_it_has_no_registers_for(columns: int, kept: list[OpKind]) -> None:
    """A cross-entropy with weights for labels needs the logits and their exponentials: 64 registers of 64 spilled."""
    logits, labels = x(4096, columns), B.input("labels:0", F32, (4096, columns))
    centred = B.sub(logits, B.reduce(K.MAX, logits, [1], True))
    exponentials = B.exp(centred)
    total = B.sum(exponentials, [1], True)
    loss = B.sum(B.mul(labels, B.sub(B.op(K.LOG, total), centred)), [1])
    schedule = propose_row(whole(loss, B.sub(B.div(exponentials, total), labels)), H200, True)[0]
    assert schedule.mapping.threads == 1024
    assert [(s.node.kind, s.scheme) for s in schedule.staged] == [(kind, Scheme.LOCAL) for kind in kept]


@pytest.mark.parametrize(("rows", "columns", "scheme", "ahead"), [
    (2, 1_000_000, Scheme.LOCAL, False),  # all at once in registers
    (10, 500_000, Scheme.REGIONAL, False),  # all at once in shared memory
    (64, 500_000, Scheme.LOCAL, True),
    (64, 500_001, Scheme.REGIONAL, False),  # no whole fetches
    (2, 5_000_000, Scheme.REGIONAL, False)])  # longer than all registers
def test_where_blocks_keep_the_rows_that_they_share(rows: int, columns: int, scheme: Scheme, ahead: bool) -> None:
    schedule = gpu_row(columns, rows)
    assert schedule.mapping.row_blocks > 1
    assert {s.scheme for s in schedule.staged} == {scheme}
    assert schedule.ahead == ahead
    assert schedule.launched <= schedule.resident * H200.processors


@pytest.mark.parametrize(("rows", "columns", "blocks"), [
    (4096, 40_000, 1), (2048, 50_000, 2), (2048, 65_536, 2), (140, 65_535, 2), (1000, 80_000, 2), (500, 130_000, 4)])
def test_many_rows_stay_in_registers_and_shared_memory(rows: int, columns: int, blocks: int) -> None:
    """Of one block, or of those of a cluster."""
    schedule = gpu_row(columns, rows)
    m = schedule.mapping
    assert (m.row_blocks, m.cluster, schedule.resident) == (blocks, blocks > 1, 2)
    assert m.items > 0
    assert m.beyond > 1
    assert (m.items + m.beyond) * m.per_pass >= columns > (m.items + m.beyond - 1) * m.per_pass
    assert m.grid == rows * blocks
    assert [s.instead_of is not None for s in schedule.staged] == [False, True]


@pytest.mark.parametrize(("rows", "columns"), [(64, 30_000), (64, 500_000), (512, 200_000), (100, 65_536)])
def test_rows_that_are_few_or_too_long_are_no_clusters(rows: int, columns: int) -> None:
    """Measured: blocks that meet at grid barriers are faster, or as fast."""
    m = gpu_row(columns, rows).mapping
    assert m.row_blocks > 1
    assert not m.cluster


def test_devices_without_clusters() -> None:
    """One block may still have room; else blocks meet at grid barriers."""
    older = gpu_spec(H200.profile, "80")
    assert gpu_row(40_000, 4096, older).mapping == gpu_row(40_000, 4096).mapping
    m = gpu_row(65_536, 2048, older).mapping
    assert m.row_blocks > 1
    assert not m.cluster


def test_devices_whose_blocks_cannot_wait_for_each_other() -> None:
    """Each row has a block."""
    alone = replace(H200, grid_barrier=False, largest_cluster=1)
    assert gpu_row(500_000, 64).mapping.row_blocks > 1
    assert gpu_row(500_000, 64, alone).mapping.row_blocks == 1


def test_devices_with_wider_warps() -> None:
    """A row is shared by a warp at least, and stays in registers up to one."""
    wide = replace(H200, warp=64)
    assert (gpu_row(256, 4096).mapping.row_threads, gpu_row(256, 4096, wide).mapping.row_threads) == (32, 64)
    assert gpu_row(256, 4096, wide).mapping.warp == 64


def test_devices_without_asynchronous_copies() -> None:
    """No row is on its way while a block works on another."""
    older = replace(H200, async_copies=False)
    assert gpu_row(200_000, 5_000, replace(H200, largest_cluster=1)).ahead
    assert not gpu_row(200_000, 5_000, replace(older, largest_cluster=1)).ahead


def test_what_is_dear_is_staged_on_the_cpu() -> None:
    schedule = propose_row(whole(p.softmax(x(8, 100))), CPU, True)[0]
    assert [s.node.kind for s in schedule.staged] == [K.EXP]
    assert propose_row(whole(p.softmax(x(8, 1_000_000))), CPU, True)[0].staged == ()


def test_phases_of_softmax() -> None:
    phases = split_phases(whole(p.softmax(x(8, 100))), 800)
    assert [[n.kind for n in ph.reductions] for ph in phases] == [[K.MAX], [K.SUM], []]
    assert [len(ph.outputs) for ph in phases] == [0, 0, 1]


@pytest.mark.parametrize(("dtype", "columns", "width"),
                         [(F32, 1000, 4), (F32, 1002, 2), (F32, 1003, 1), (DType.F16, 1000, 8),
                                                         (DType.F64, 1000, 2), (DType.BOOL, 1000, 8)])
def test_vector_width(dtype: DType, columns: int, width: int) -> None:
    pattern = whole(B.select(x(4, columns, dtype=dtype), *(2 * [x(4, columns, dtype=dtype)]))
                    if dtype is DType.BOOL else B.neg(x(4, columns, dtype=dtype)))
    assert vector_width(pattern, columns, True) == width
    assert vector_width(pattern, columns, False) == 1


@pytest.mark.parametrize(("rule", "pattern", "reason"), [
    (propose_row, lambda: whole(B.exp(x(4, 8))), "no reduction"),
    (propose_row, lambda: whole(B.sum(x(4, 8), [0]), B.sum(x(4, 8), [1])), "different extents"),
    (propose_column, lambda: whole(B.exp(x(4, 8))), "no reduction"),
    (propose_column, lambda: whole(B.sum(x(4, 8), [1])), "reduces its last axis"),
    (propose_column, lambda: whole(B.sum(x(4, 8), [0]), B.sum(x(3, 8), [0])), "different extents"),
    (propose_scan, lambda: whole(B.exp(x(4, 8))), "not a single scan"),
    (propose_scan, lambda: whole(B.exp(B.cumsum(x(4, 8), False, False))), "not a single scan"),
    (propose_elementwise, lambda: whole(B.sum(x(4, 8), [0])), "a reduction or scan"),
    (propose_elementwise, lambda: whole(B.exp(x(4, 8)), B.exp(x(3, 8))), "different sizes"),
])
@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_a_rule_that_declines_says_why(rule: object, pattern: object, reason: str, device: DeviceSpec) -> None:
    with pytest.raises(ScheduleError, match=reason):
        rule(pattern(), device, True)  # type: ignore[operator]


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (513, 1000), (100_000, 3), (3, 100_000)])
def test_grids_cover_the_domain(shape: tuple[int, int]) -> None:
    flat = propose_elementwise(whole(B.exp(x(*shape))), H200, True)[0].mapping
    assert (flat.grid - 1) * flat.threads * flat.vector < shape[0] * shape[1] <= flat.grid * flat.threads * flat.vector
    column = propose_column(whole(B.sum(x(*shape), [0])), H200, True)[0].mapping
    tile = column.row_threads * column.vector
    assert (column.grid - 1) * tile < shape[1] <= column.grid * tile
    assert column.threads <= 512


@pytest.mark.parametrize(("elements", "vector", "grid"), [
    (4, 4, 1), (1280, 1, 5), (17_000, 2, 34), (40_000, 4, 40), (1 << 24, 4, 1 << 14)])
def test_threads_of_few_elements_have_one_each(elements: int, vector: int, grid: int) -> None:
    mapping = propose_elementwise(whole(B.exp(x(elements))), H200, True)[0].mapping
    assert (mapping.vector, mapping.grid) == (vector, grid)


def test_text_of_a_schedule() -> None:
    assert gpu_row(1000).text().splitlines()[0] == "row_reduction rows=512 cols=1000 dominant=max"
    assert propose_scan(whole(B.cumsum(x(4, 8), False, False)), CPU, True)[0].family == SCAN.name


@pytest.mark.parametrize(("length", "columns", "row_threads", "threads", "together"), [
    (512, 512, 4, 256, 16), (512, 2048, 8, 256, 16), (2048, 512, 4, 512, 16), (4096, 4096, 8, 512, 16),
    (512, 30_000, 32, 512, 16), (40, 64, 8, 256, 16), (40, 100_000, 32, 256, 0)])
def test_columns_of_few_blocks(length: int, columns: int, row_threads: int, threads: int, together: int) -> None:
    """Narrow tiles, many threads of a column and many rows under way together, as measured for products of one row."""
    schedule = propose_column(whole(B.sum(x(length, columns), [0])), H200, True)[0]
    mapping = schedule.mapping
    assert (mapping.row_threads, mapping.threads, schedule.together) == (row_threads, threads, together)


def test_rows_under_way_together_fit_registers() -> None:
    several = [B.input(f"x{i}", F32, (512, 512)) for i in range(3)]
    schedule = propose_column(whole(*(B.sum(one, [0]) for one in several)), H200, True)[0]
    assert schedule.together == 4
