"""Schedules of rows: how many threads and blocks share one, and where it stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.device.spec import CPU, H200, DeviceSpec, gpu_spec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.row import propose
from tf_stitch.families.row.propose import propose_row
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme
from tf_stitch.schedule.phases import Phase, split_phases

B, F32, K = p.B, DType.F32, OpKind


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


@pytest.mark.parametrize(("columns", "staged"), [(20_000, [K.INPUT, K.EXP]), (30_000, [K.INPUT])])
def test_the_largest_block_computes_again_what_it_has_no_registers_for(columns: int, staged: list[OpKind]) -> None:
    """A cross-entropy with weights for labels needs the logits and their exponentials: 64 registers of 64 spilled."""
    logits, labels = x(4096, columns), B.input("labels:0", F32, (4096, columns))
    centred = B.sub(logits, B.reduce(K.MAX, logits, [1], True))
    exponentials = B.exp(centred)
    total = B.sum(exponentials, [1], True)
    loss = B.sum(B.mul(labels, B.sub(B.op(K.LOG, total), centred)), [1])
    schedule = propose_row(whole(loss, B.sub(B.div(exponentials, total), labels)), H200, True)[0]
    assert schedule.mapping.threads == 1024
    assert [(s.node.kind, s.scheme) for s in schedule.staged] == [(kind, Scheme.LOCAL) for kind in staged]


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
    """Measured: blocks that wait at grid barriers are faster, or as fast."""
    m = gpu_row(columns, rows).mapping
    assert m.row_blocks > 1
    assert not m.cluster


def test_devices_without_clusters() -> None:
    """One block may still have room; else blocks wait at grid barriers."""
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


def test_text_of_a_schedule() -> None:
    assert gpu_row(1000).text().splitlines()[0] == "row_reduction rows=512 cols=1000 dominant=max"


@pytest.mark.parametrize(("pattern", "reason"), [
    (lambda: whole(B.exp(x(4, 8))), "no reduction"),
    (lambda: whole(B.sum(x(4, 8), [0]), B.sum(x(4, 8), [1])), "different extents"),
])
@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_what_it_declines_and_why(pattern: Callable[[], Pattern], reason: str, device: DeviceSpec) -> None:
    with pytest.raises(ScheduleError, match=reason):
        propose_row(pattern(), device, True)


@pytest.mark.parametrize(("columns", "times"), [(propose.LONG_ROW // 2, 1), (propose.LONG_ROW, 2)])
def test_only_long_rows_are_split(columns: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Pattern] = []

    def counted(pattern: Pattern, elements: int) -> list[Phase]:
        asked.append(pattern)
        return split_phases(pattern, elements)

    monkeypatch.setattr(propose, "split_phases", counted)
    gpu_row(columns)
    assert len(asked) == times, "what a row needs is looked for twice where it may be split"
