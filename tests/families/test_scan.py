"""Running sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.scan import SCAN, propose_scan
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.stitch_plan import Pattern

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
