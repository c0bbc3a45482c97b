"""Which matmuls of few rows a kernel of ours multiplies."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.differential.runner import region
from tests.support.matmul_times import FAST, NO_KERNEL, MatmulTimes, matmul
from tf_stitch.device.spec import CPU, H200
from tf_stitch.families.matmul_tiles import MOST_RESULTS
from tf_stitch.families.matmul_tiles import MOST_ROWS as MOST_TILED_ROWS
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.passes.lower_gemv_to_reduction import MOST_ROWS
from tf_stitch.passes.matmuls_to_kernels import (
    FEW_ROWS,
    MOST_TERMS,
    REPEATED,
    in_a_loop,
    matmuls_for_tasks,
    matmuls_to_multiply,
)
from tf_stitch.planning.matmul_sizes import SMALL_MATMUL
from tf_stitch.planning.pattern import Pattern

B, F32 = Builder(), DType.F32
CHOICES = H200.profile.choices


@dataclass
class TimesOfKernels(MatmulTimes):
    """A library's call takes 1 us, a kernel that multiplies `kernel_us`."""

    sum_us: float | None = None
    kernel_us: float | None = None

    def exact(self, pattern: Pattern) -> float | None:
        attrs = pattern.nodes[0].attrs
        return self.kernel_us if isinstance(attrs, DotAttrs) and attrs.in_kernel else super().exact(pattern)


def multiplied(node: Node, kernel_us: float | None) -> bool:
    return matmuls_to_multiply(region("g", [node]), TimesOfKernels(kernel_us=kernel_us)) == {node}


def test_a_kernel_multiplies_few_rows_where_that_is_surely_faster() -> None:
    assert multiplied(matmul(16, 64, 96), CHOICES.few_rows_part - 0.01)
    assert not multiplied(matmul(16, 64, 96), CHOICES.few_rows_part + 0.01)
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
    assert repeated(rows, REPEATED, CHOICES.repeated_part - 0.01) == REPEATED
    assert repeated(rows, REPEATED, CHOICES.repeated_part + 0.01) == 0


def test_a_library_multiplies_many_rows_in_a_recurrent_layer() -> None:
    assert repeated(MOST_RESULTS // 64 + 1, REPEATED) == 0


def test_an_iteration_of_a_loop_is_repeated() -> None:
    step = in_a_loop(region("g", [B.exp(B.dot(B.input("h:0", F32, (40, 64)), B.input("w:0", F32, (64, 64))))]))
    assert len(matmuls_to_multiply(step, TimesOfKernels(kernel_us=FAST))) == 1


def test_tasks_of_a_cpu_multiply_what_they_are_surely_faster_with() -> None:
    def chosen(node: Node, kernel_us: float | None) -> bool:
        times = TimesOfKernels(kernel_us=kernel_us)
        times.profile = CPU.profile
        return matmuls_for_tasks(region("g", [node]), times) == {node}

    large = matmul(2048, 1024, 96)
    part = CPU.profile.choices.task_part
    assert chosen(large, part - 0.01)
    assert not chosen(large, part + 0.01)
    assert not chosen(large, NO_KERNEL)
    assert not chosen(matmul(FEW_ROWS, 64, 96), FAST), "a library reads the matrix once"
    assert not chosen(matmul(size("n", 16), 64, 96), FAST)
    assert not chosen(matmul(64, SMALL_MATMUL, 96), FAST), "planning can inline it"
