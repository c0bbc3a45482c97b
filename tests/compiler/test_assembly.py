"""Steps of an executable."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.runner import keys_of, region
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import H200
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.placement.executable import LibraryStep

B = p.B


def matmul(rows: int, terms: int, columns: int) -> TensorGraph:
    a, b = B.input("a", DType.F16, (rows, terms)), B.input("b", DType.F16, (terms, columns))
    return region("matmul", [B.dot(a, b)])


@pytest.mark.parametrize("sizes", [(1 << 31, 256, 256), (256, 1 << 31, 256), (256, 256, 1 << 31)])
def test_matmuls_that_libraries_cannot_count(sizes: tuple[int, int, int]) -> None:
    """A region with one is TensorFlow's; the message has its sizes."""
    graph = matmul(*sizes)
    with pytest.raises(ScheduleError, match="extent above 2147483647"):
        compile_region(graph, *keys_of(graph), CompileOptions(H200))


def test_the_largest_that_they_count() -> None:
    graph = matmul((1 << 31) - 1, 256, 256)
    [step] = compile_region(graph, *keys_of(graph), CompileOptions(H200)).executable.steps
    assert isinstance(step, LibraryStep)
