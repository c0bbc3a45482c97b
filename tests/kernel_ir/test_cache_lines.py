"""Lines of the first cache that a warp looks up."""

from __future__ import annotations

import pytest

from tf_stitch.kernel_ir.cache_lines import lines_of
from tf_stitch.kernel_ir.index import Index, Var, constant, var

THREAD = Var("thread", 256)


@pytest.mark.parametrize(("index", "width", "size", "lines"), [
    (constant(7), 1, 4, 1),
    (var(THREAD), 1, 4, 1), (var(THREAD), 1, 2, 1), (var(THREAD) * 4, 4, 4, 4),
    (var(THREAD) * 64, 1, 4, 32), (var(THREAD) % 8 * 64, 1, 4, 8),
    (var(THREAD) // 8 * 1024, 1, 4, 4)])  # fmt: skip
def test_lines(index: Index, width: int, size: int, lines: int) -> None:
    stride = abs(index.value({THREAD: 1}) - index.value({}))
    assert lines_of(index, THREAD, 32, width, size, stride) == lines


def test_places_that_are_loaded() -> None:
    assert lines_of(var(THREAD), THREAD, 32, 1, 4, None) == 32
