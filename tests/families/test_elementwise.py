"""Elements, each by itself: what a thread takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.elementwise import propose_elementwise
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.pattern import Pattern

B, F32, K = p.B, DType.F32, OpKind


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (513, 1000), (100_000, 3), (3, 100_000)])
def test_grids_cover_the_elements(shape: tuple[int, int]) -> None:
    flat = propose_elementwise(whole(B.exp(x(*shape))), H200, True)[0].mapping
    assert (flat.grid - 1) * flat.threads * flat.vector < shape[0] * shape[1] <= flat.grid * flat.threads * flat.vector


@pytest.mark.parametrize(("elements", "vector", "grid"), [
    (4, 4, 1), (1280, 1, 5), (17_000, 2, 34), (40_000, 4, 40), (1 << 24, 4, 1 << 14)])
def test_threads_of_few_elements_have_one_each(elements: int, vector: int, grid: int) -> None:
    mapping = propose_elementwise(whole(B.exp(x(elements))), H200, True)[0].mapping
    assert (mapping.vector, mapping.grid) == (vector, grid)


@pytest.mark.parametrize(("pattern", "reason"), [
    (lambda: whole(B.sum(x(4, 8), [0])), "a reduction or scan"),
    (lambda: whole(B.exp(x(4, 8)), B.exp(x(3, 8))), "different sizes"),
])
@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_what_it_declines_and_why(pattern: Callable[[], Pattern], reason: str, device: DeviceSpec) -> None:
    with pytest.raises(ScheduleError, match=reason):
        propose_elementwise(pattern(), device, True)
