"""Which skinny matmuls become sums."""

from __future__ import annotations

from tests.differential.runner import region
from tests.support.matmul_times import FAST, NO_KERNEL, SLOW, MatmulTimes, matmul
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.passes.lower_gemv_to_reduction import MOST_ROWS, TimesWithSums, matmuls_to_sum
from tf_stitch.planning.pattern import Pattern
from tf_stitch.targets.target import LARGE

B, F32 = Builder(), DType.F32


def chosen(node: Node, sum_us: float | None = FAST) -> bool:
    return matmuls_to_sum(region("g", [node]), MatmulTimes(sum_us)) == {node}


def test_a_sum_where_that_is_faster() -> None:
    assert chosen(matmul(1, 20, 30))
    assert not chosen(matmul(1, 20, 30), SLOW)
    assert not chosen(matmul(1, 20, 30), NO_KERNEL)


def test_many_rows_are_not_asked_about() -> None:
    times = MatmulTimes(FAST)
    assert not matmuls_to_sum(region("g", [matmul(MOST_ROWS + 1, 20, 30)]), times)
    assert not times.asked
    assert chosen(matmul(MOST_ROWS, 20, 30))


def test_small_matmuls_are_left_to_planning() -> None:
    """Those of few terms, and of one column if planning can write it out."""
    assert not chosen(matmul(1, 16, 30))
    assert not chosen(matmul(40, 20, 1))
    assert chosen(matmul(40, 5000, 1))


def test_sizes_that_change_are_not_asked_about() -> None:
    n, times = size("n", 37), MatmulTimes(SLOW)
    one, two = matmul(1, 20, n), matmul(2, 20, n)
    assert matmuls_to_sum(region("g", [one, two]), times) == {one}
    assert not times.asked


def test_the_time_of_a_matmul_is_that_of_the_faster_form() -> None:
    node = matmul(1, 20, 30)
    alone = Pattern((node,), (node,), frozenset())
    assert [TimesWithSums(MatmulTimes(us)).exact(alone) for us in (FAST, SLOW, NO_KERNEL)] == [FAST, 1.0, 1.0]


def test_a_gradient_of_few_weights_is_the_librarys() -> None:
    """Of a convolution by 16 x 64 filters of 1 x 1 at 32 images of 112 x 112."""
    x, y = (B.input(f"{name}:0", DType.F32, (401408, channels)) for name, channels in (("x", 16), ("y", 64)))
    graph = region("g", [B.dot(x, y, transpose_a=True)])
    assert not matmuls_to_sum(graph, PatternCompiler(H200, True, LARGE))


def test_estimates_know_of_scattered_loads() -> None:
    """As exact times do: large regions are planned by estimates alone."""
    times = PatternCompiler(H200, True, LARGE)
    rows = B.input("x:0", F32, (401408, 16))

    def estimated(w: Node, transposed: bool) -> float:
        dot = B.dot(rows, w, transpose_b=transposed)
        result = B.exp(dot)
        found = times.estimate(Pattern((dot, result), (result,), frozenset()))
        assert found is not None
        return found

    together, apart = B.input("w:0", F32, (16, 32)), B.input("w:0", F32, (32, 16))
    assert estimated(apart, True) > 2 * estimated(together, False)
