"""Which skinny matmuls become sums."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.differential.runner import region
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.skinny_matmuls import (
    MOST_TERMS,
    REPEATED,
    SURELY,
    SURELY_REPEATED,
    TimesWithSums,
    matmuls_to_multiply,
    matmuls_to_sum,
)
from tf_stitch.device.spec import H200
from tf_stitch.families.matmul_tiles import MOST_RESULTS
from tf_stitch.families.matmul_tiles import MOST_ROWS as MOST_TILED_ROWS
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.planning.matmul_sizes import SMALL_MATMUL
from tf_stitch.planning.pattern import Pattern
from tf_stitch.targets.target import LARGE
from tf_stitch.transforms.lower_gemv_to_reduction import MOST_ROWS
from tf_stitch.transforms.matmuls_to_kernels import in_a_loop

B, F32 = Builder(), DType.F32


@dataclass
class Times:
    """A library's call takes 1 us, a sum `sum_us`."""

    sum_us: float | None
    asked: list[Pattern] = field(default_factory=list)
    least_us = 0.0

    def estimate(self, pattern: Pattern) -> float | None:
        return self.exact(pattern)

    def exact(self, pattern: Pattern) -> float | None:
        self.asked.append(pattern)
        return 1.0 if pattern.nodes[0].kind is OpKind.DOT else self.sum_us


FAST, SLOW, NO_KERNEL = 0.5, 2.0, None


def matmul(rows: int, terms: int, columns: int) -> Node:
    return B.dot(B.input("x", F32, (rows, terms)), B.input("y", F32, (terms, columns)), False, False)


def chosen(node: Node, sum_us: float | None = FAST) -> bool:
    return matmuls_to_sum(region("g", [node]), Times(sum_us)) == {node}


def test_a_sum_where_that_is_faster() -> None:
    assert chosen(matmul(1, 20, 30))
    assert not chosen(matmul(1, 20, 30), SLOW)
    assert not chosen(matmul(1, 20, 30), NO_KERNEL)


def test_many_rows_are_not_asked_about() -> None:
    times = Times(FAST)
    assert not matmuls_to_sum(region("g", [matmul(MOST_ROWS + 1, 20, 30)]), times)
    assert not times.asked
    assert chosen(matmul(MOST_ROWS, 20, 30))


def test_small_matmuls_are_left_to_planning() -> None:
    """Those of few terms, and of one column if planning can write it out."""
    assert not chosen(matmul(1, 16, 30))
    assert not chosen(matmul(40, 20, 1))
    assert chosen(matmul(40, 5000, 1))


def test_sizes_that_change_are_not_asked_about() -> None:
    n, times = size("n", 37), Times(SLOW)
    one, two = matmul(1, 20, n), matmul(2, 20, n)
    assert matmuls_to_sum(region("g", [one, two]), times) == {one}
    assert not times.asked


def test_the_time_of_a_matmul_is_that_of_the_faster_form() -> None:
    node = matmul(1, 20, 30)
    alone = Pattern((node,), (node,), frozenset())
    assert [TimesWithSums(Times(us)).exact(alone) for us in (FAST, SLOW, NO_KERNEL)] == [FAST, 1.0, 1.0]


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

@dataclass
class TimesOfKernels(Times):
    """A library's call takes 1 us, a kernel that multiplies `kernel_us`."""

    sum_us: float | None = None
    kernel_us: float | None = None

    def exact(self, pattern: Pattern) -> float | None:
        attrs = pattern.nodes[0].attrs
        return self.kernel_us if isinstance(attrs, DotAttrs) and attrs.in_kernel else super().exact(pattern)


def multiplied(node: Node, kernel_us: float | None) -> bool:
    return matmuls_to_multiply(region("g", [node]), TimesOfKernels(kernel_us=kernel_us)) == {node}


def test_a_kernel_multiplies_few_rows_where_that_is_surely_faster() -> None:
    assert multiplied(matmul(16, 64, 96), SURELY - 0.01)
    assert not multiplied(matmul(16, 64, 96), SURELY + 0.01)
    assert not multiplied(matmul(16, 64, 96), NO_KERNEL)


def test_a_library_multiplies_many_rows_and_sizes_that_change() -> None:
    assert not multiplied(matmul(MOST_ROWS + 1, 64, 96), FAST)
    assert not multiplied(matmul(size("n", 16), 64, 96), FAST)
    assert not multiplied(matmul(16, SMALL_MATMUL, 96), FAST), "planning can inline it"
    assert not multiplied(matmul(16, MOST_TERMS + 1, 96), FAST), "few blocks would read it all"


def repeated(rows: int, steps: int, kernel_us: float | None = FAST) -> int:
    """How many matmuls of a recurrent layer's steps a kernel of ours multiplies."""
    w, h = B.input("w:0", F32, (64, 64)), B.input("h:0", F32, (rows, 64))
    for _ in range(steps):
        h = B.exp(B.dot(h, w))
    return len(matmuls_to_multiply(region("g", [h]), TimesOfKernels(kernel_us=kernel_us)))


@pytest.mark.parametrize("rows", [MOST_ROWS + 1, MOST_TILED_ROWS, MOST_RESULTS // 64])
def test_a_kernel_multiplies_more_rows_in_the_steps_of_a_recurrent_layer(rows: int) -> None:
    assert repeated(rows, REPEATED) == REPEATED
    assert repeated(rows, REPEATED - 1) == 0
    assert repeated(rows, REPEATED, SURELY_REPEATED - 0.01) == REPEATED
    assert repeated(rows, REPEATED, SURELY_REPEATED + 0.01) == 0


def test_a_library_multiplies_many_rows_in_a_recurrent_layer() -> None:
    assert repeated(MOST_RESULTS // 64 + 1, REPEATED) == 0


def test_an_iteration_of_a_loop_is_repeated() -> None:
    step = in_a_loop(region("g", [B.exp(B.dot(B.input("h:0", F32, (40, 64)), B.input("w:0", F32, (64, 64))))]))
    assert len(matmuls_to_multiply(step, TimesOfKernels(kernel_us=FAST))) == 1
