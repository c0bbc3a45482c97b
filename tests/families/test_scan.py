"""Running sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import check_all, region
from tests.support.whole_patterns import whole, x
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.scan import SCAN, propose_scan
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.pattern import Pattern

B, F32, K = p.B, DType.F32, OpKind


def test_a_running_sum_has_a_schedule() -> None:
    assert propose_scan(whole(B.cumsum(x(4, 8), False, False)), CPU, True)[0].family == SCAN.name


@pytest.mark.parametrize(("pattern", "reason"), [
    (lambda: whole(B.exp(x(4, 8))), "not a single scan"),
    (lambda: whole(B.exp(B.cumsum(x(4, 8), False, False))), "not a single scan"),
])
@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_what_it_declines_and_why(pattern: Callable[[], Pattern], reason: str, device: DeviceSpec) -> None:
    with pytest.raises(ScheduleError, match=reason):
        propose_scan(pattern(), device, True)


@pytest.mark.parametrize(("shape", "parts"), [((64, 256), 32), ((3, 37), 8), ((20000, 256), 1), ((1, 5), 1)])
def test_some_threads_walk_a_row_where_rows_are_few(shape: tuple[int, int], parts: int) -> None:
    [schedule] = propose_scan(whole(B.cumsum(x(*shape), False, False)), H200, True)
    assert schedule.mapping.row_threads == parts
    assert schedule.mapping.rows_per_block * parts == schedule.mapping.threads
    [schedule] = propose_scan(whole(B.cumsum(x(*shape), False, False)), CPU, True)
    assert schedule.mapping.row_threads == 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("cols", [33, 64, 250])
def test_parts_of_rows(cols: int, exclusive: bool, reverse: bool) -> None:
    """Columns that threads divide and do not; rows that blocks do not; sums, products, numbers and halves."""
    rows = (5, cols)
    outputs = [B.cumsum(B.exp(B.input("a:0", F32, rows)), exclusive, reverse),
               B.cumprod(B.exp(B.mul(B.input("p:0", F32, rows), B.constant(np.full(cols, 0.01), F32))), exclusive,
                         reverse),
               B.cumsum(B.input("i:0", DType.I32, rows), exclusive, reverse),
               B.cumsum(B.input("h:0", DType.BF16, rows), exclusive, reverse)]  # fmt: skip
    check_all(region("parts", outputs), interpret_cpu=True, interpret_gpu=True)
