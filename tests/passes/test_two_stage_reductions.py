"""Long reductions are split in two stages; long rows that blocks share stay whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.patterns import softmax
from tests.differential.runner import random_values, region
from tests.passes.kinds import kinds
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.pass_manager import run_passes
from tf_stitch.passes.two_stage_reductions import TwoStageReductions, divisor_near

B, F32 = p.B, DType.F32
SPLIT = TwoStageReductions(tasks=8, shortest=4, column_tile=4, column_parts=8, longest_part=1 << 14)


def reductions(device: DeviceSpec, *outputs: Node) -> int:
    graph = run_passes(region("g", list(outputs)), passes(device))
    return sum(n.category is Category.REDUCTION for n in graph.nodes())


@pytest.mark.parametrize(("rows", "cols", "count"), [
    (64, 1000, 2), (8, 100_000, 2), (64, 500_000, 2), (1, 50_000_000, 4)])
def test_rows_whose_elements_are_needed_again(rows: int, cols: int, count: int) -> None:
    """Softmax: a maximum and a sum, each in two stages where no blocks have room for the row."""
    assert reductions(H200, p.softmax(B.input("x:0", F32, (rows, cols)))) == count


@pytest.mark.parametrize(("rows", "columns", "terms"), [(2048, 8192, 16), (2048, 768, 4), (256, 8192, 4)])
def test_parts_of_a_large_matrix_have_several_terms(rows: int, columns: int, terms: int) -> None:
    """The sums of 512 parts of 4 rows of 8192 were a quarter of what was read for them."""
    graph = run_passes(region("g", [B.sum(B.input("x:0", F32, (rows, columns)), [0])]), passes(H200))
    first = min((n for n in graph.nodes() if n.category is Category.REDUCTION), key=lambda n: -n.operands[0].type.numel)
    assert first.operands[0].type.numel // first.type.numel == terms


def test_sums_alone_are_split() -> None:
    assert reductions(H200, B.sum(B.input("x:0", F32, (8, 100_000)), [1])) == 2


def test_rows_on_a_cpu_are_split() -> None:
    assert reductions(CPU, p.softmax(B.input("x:0", F32, (1, 1 << 20)))) == 4


def test_rows_of_a_length_that_changes_are_split() -> None:
    """How many blocks share a row is decided for its length; kernels of all lengths cannot have that."""
    x = B.input("x:0", F32, (8, size("n", 1 << 17)))
    assert reductions(H200, p.softmax(x)) == 4


def test_long_reductions_become_two_stages() -> None:
    assert kinds(SPLIT, B.sum(B.input("x:0", F32, (256,)), [0])) == ["reshape", "sum", "sum"]
    assert kinds(SPLIT, B.sum(B.input("x:0", F32, (256, 3)), [0])) == ["reshape", "sum", "sum"]
    half = B.input("x:0", DType.F16, (256,))
    assert kinds(SPLIT, B.sum(half, [0])) == ["reshape", "cast", "sum", "sum", "cast"]


def test_axes_that_do_not_adjoin_are_separated() -> None:
    p = TwoStageReductions(tasks=1, shortest=1 << 30, column_tile=1, column_parts=8, longest_part=1 << 14)
    assert kinds(p, B.sum(B.input("x:0", F32, (2, 3, 4)), [0, 2])) == ["sum", "sum"]
    assert kinds(p, B.sum(B.input("x:0", F32, (2, 1, 4)), [0, 2])) == ["sum"]


def test_reductions_that_stay_whole() -> None:
    assert kinds(SPLIT, B.sum(B.input("x:0", F32, (7,)), [0])) == ["sum"]
    assert kinds(SPLIT, B.sum(B.input("x:0", F32, (257,)), [0])) == ["sum"], "a prime number has no divisor"
    assert kinds(SPLIT, B.sum(B.input("x:0", F32, (64, 256)), [1])) == ["sum"], "enough rows to fill the device"
    assert kinds(SPLIT, B.arg_reduce(OpKind.ARGMAX, B.input("x:0", F32, (256,)), 0, DType.I32)) == ["argmax"]


def split_value(p: TwoStageReductions, output: Node, values: dict[str, np.ndarray]) -> np.ndarray:
    """What a reduction that the pass splits gives."""
    result = p.run(region("g", [output]))
    assert result.modified
    return interpret(result.graph, values)["o0"]


def test_parts_of_a_softmax_that_are_all_minus_infinity() -> None:
    x = B.input("x:0", F32, (1, 256))
    value = random_values(region("g", [x]))["x:0"]
    value[0, :64] = -np.inf
    e = np.exp(value - value.max())
    np.testing.assert_allclose(split_value(SPLIT, softmax(x), {"x:0": value}), e / e.sum(), rtol=1e-5)


@pytest.mark.parametrize(("kind", "values"), [(OpKind.MAX, -1), (OpKind.MIN, 1), (OpKind.PROD, 1), (OpKind.SUM, 1)])
def test_a_length_without_divisors_is_padded_by_what_changes_nothing(kind: OpKind, values: float) -> None:
    x = B.input("x:0", F32, (257,))
    value = np.full(257, values, np.float32)
    found = split_value(replace(SPLIT, pad=True), B.reduce(kind, x, [0]), {"x:0": value})
    assert found == (257 if kind is OpKind.SUM else values)


@pytest.mark.parametrize("length", [1, 7, 12, 360, 97 * 89, 1 << 20])
@pytest.mark.parametrize("wanted", [0, 1, 2, 31, 400])
def test_the_number_of_parts_divides_a_length(length: int, wanted: int) -> None:
    divisors = [d for d in range(wanted, 1, -1) if length % d == 0]
    whole = (d for d in divisors if length // d % 4 == 0 and 2 * d > wanted)
    assert divisor_near(length, wanted, 4) == next(whole, next(iter(divisors), 1))


@pytest.mark.timeout(20)
def test_numbers_of_parts_of_changing_lengths_are_not_tried_one_by_one() -> None:
    """A region of changing sizes took minutes: each number up to that of parts that are wanted was tried."""
    length = size("n", 1 << 30) * size("m", 1 << 10) * 12
    assert divisor_near(length, 1 << 40) == 12
    assert divisor_near(length, 11) == 6
