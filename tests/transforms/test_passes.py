"""Tensor passes: a case each changes and one it leaves, idempotence, and the meaning kept on random graphs."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.differential.generator import make_case
from tests.differential.patterns import softmax
from tests.differential.runner import compare, compiled, random_values, reference, region, run_host
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.pass_manager import Instrument, Pass, run_passes
from tf_stitch.transforms.copy_outputs import CopyOutputs
from tf_stitch.transforms.cse import EliminateCommonSubexpressions
from tf_stitch.transforms.fold_constants import FoldConstants
from tf_stitch.transforms.simplify_algebra import SimplifyAlgebra
from tf_stitch.transforms.simplify_movement import SimplifyMovement
from tf_stitch.transforms.single_pass_variance import SinglePassVariance
from tf_stitch.transforms.two_stage_reductions import TwoStageReductions

B, F32 = Builder(), DType.F32
X = B.input("x:0", F32, (4, 6))
SPLIT = TwoStageReductions(tasks=8, shortest=4, column_tile=4, column_parts=8, longest_part=1 << 14)
ALL: list[Pass[TensorGraph]] = [EliminateCommonSubexpressions(), FoldConstants(), SimplifyMovement(),
                                SimplifyAlgebra(), SPLIT, CopyOutputs()]


def kinds(p: Pass[TensorGraph], *outputs: Node) -> list[str]:
    """Kinds of what the pass leaves, inputs aside; checks that `modified` tells the truth."""
    before = region("g", list(outputs))
    result = p.run(before)
    verify_graph(result.graph)
    assert result.modified == (format_graph(result.graph) != format_graph(before))
    return [n.kind.value for n in result.graph.nodes() if n.kind is not OpKind.INPUT]


# cse
def test_cse_merges_equal_nodes() -> None:
    assert kinds(EliminateCommonSubexpressions(), B.add(B.exp(X), B.exp(X))) == ["exp", "add"]
    assert kinds(EliminateCommonSubexpressions(), B.constant([1, 2], F32), B.constant([1, 2], F32)) == ["constant"]


def test_cse_keeps_what_differs() -> None:
    assert kinds(EliminateCommonSubexpressions(), B.sum(X, [0]), B.sum(X, [1])) == ["sum", "sum"]
    assert kinds(EliminateCommonSubexpressions(), B.constant(1, F32), B.constant(1, DType.I32)) == ["constant",
                                                                                                    "constant"]
    assert kinds(EliminateCommonSubexpressions(), B.constant(0.0, F32), B.constant(-0.0, F32)) == ["constant",
                                                                                                   "constant"]


def test_cse_keeps_every_assign() -> None:
    y = B.exp(X)
    graph = region("g", [], {"v": y, "w": y})
    assert len(EliminateCommonSubexpressions().run(graph).graph.outputs) == 2


# fold_constants
def test_folding_of_constants_and_sizes() -> None:
    two = B.constant(2, F32)
    assert kinds(FoldConstants(), B.mul(X, B.add(two, two))) == ["constant", "mul"]
    assert kinds(FoldConstants(), B.mul(X, B.extent((3, 4), F32))) == ["constant", "mul"]
    assert kinds(FoldConstants(), B.mul(X, B.constant(1, F32)), B.neg(X)) == ["neg"]
    assert kinds(FoldConstants(), B.div(X, B.constant(1, F32))) == []
    assert kinds(FoldConstants(), B.exp(B.input("e:0", F32, (0, 3)))) == ["constant"]


def test_folding_leaves() -> None:
    wide = B.broadcast(B.constant(2, F32), (2000,))
    assert kinds(FoldConstants(), wide) == ["constant", "broadcast"]
    assert kinds(FoldConstants(), B.div(B.constant(1, F32), X)) == ["constant", "div"]
    assert kinds(FoldConstants(), B.mul(B.input("s:0", F32, ()), B.constant([1, 1], F32))) == ["constant", "mul"]
    assert kinds(FoldConstants(), B.add(X, B.constant(0, F32))) == ["constant", "add"], "-0 + 0 is 0"


# simplify_movement
def test_movement_that_cancels() -> None:
    p = SimplifyMovement()
    assert kinds(p, B.reshape(B.reshape(X, (24,)), (4, 6))) == []
    assert kinds(p, B.reshape(B.reshape(X, (24,)), (3, 8))) == ["reshape"]
    assert kinds(p, B.transpose(B.transpose(X, (1, 0)), (1, 0))) == []
    assert kinds(p, B.broadcast(B.broadcast(X, (2, 4, 6)), (3, 2, 4, 6))) == ["broadcast"]
    row = B.broadcast(B.input("r:0", F32, (6,)), (4, 6))
    assert kinds(p, B.add(X, row)) == ["add"]


def test_transposes_in_sequence_are_one() -> None:
    """Permutations that are not their own inverses, nor each other's."""
    x = B.input("x:0", F32, (2, 3, 4))
    graph = region("g", [B.transpose(B.transpose(x, (1, 2, 0)), (0, 2, 1))])
    result = SimplifyMovement().run(graph).graph
    assert [n.kind.value for n in result.nodes()] == ["input", "transpose"]
    values = random_values(graph)
    np.testing.assert_array_equal(interpret(result, values)["o0"], interpret(graph, values)["o0"])


def test_movement_that_stays() -> None:
    p = SimplifyMovement()
    assert kinds(p, B.transpose(X, (1, 0))) == ["transpose"]
    row, column = B.input("r:0", F32, (1, 6)), B.input("c:0", F32, (4, 1))
    assert kinds(p, B.add(B.broadcast(row, (2, 4, 6)), column)) == ["broadcast", "add"], "nothing else gives the shape"


# two_stage_reductions
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


# copies
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


# single_pass_variance
@pytest.mark.parametrize("axes", [[0], [1]])
def test_deviations_from_the_mean_of_the_same_columns_are_summed_in_one_pass(axes: list[int]) -> None:
    """What is no mean of what is summed stays."""
    x = B.input("x:0", F32, (64, 64, 3))
    mean = B.broadcast(B.mean(x, [0], True), (64, 64, 3))
    graph = region("g", [B.sum(B.square(B.sub(x, mean)), axes)])
    result = SinglePassVariance().run(FoldConstants().run(graph).graph)
    assert result.modified == (axes == [0])
    values = random_values(graph)
    np.testing.assert_allclose(interpret(result.graph, values)["o0"], interpret(graph, values)["o0"], rtol=1e-4)


def test_outputs_that_are_other_values_are_copied_by_kernels() -> None:
    y = B.exp(X)
    assert kinds(CopyOutputs(), X, y, y) == ["cast", "exp", "cast"]
    matmul = B.dot(X, B.input("w:0", F32, (6, 5)))
    assert kinds(CopyOutputs(), matmul, B.reshape(matmul, (20,))) == ["dot", "reshape", "cast"]


def test_outputs_of_their_own_stay() -> None:
    y = B.exp(X)
    assert kinds(CopyOutputs(), y, B.neg(y)) == ["exp", "neg"]
    assigned = region("g", [y], {"v": y})
    assert not CopyOutputs().run(assigned).modified, "the variable and the output: buffers decide who copies"


# simplify_algebra
def test_a_softmax_multiplies_by_a_reciprocal() -> None:
    x = B.input("x:0", F32, (64, 256))
    e = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [1], True)))
    assert kinds(SimplifyAlgebra(), B.div(e, B.sum(e, [1], True)))[-2:] == ["reciprocal", "mul"]


def test_other_divisions_stay() -> None:
    x = B.input("x:0", F32, (64, 256))
    most, e = B.reduce(OpKind.MAX, x, [1], True), B.exp(x)
    for y in (most, B.sum(x, [1], True), B.sum(e, [1], True), B.input("y:0", F32, (256,))):
        assert kinds(SimplifyAlgebra(), B.div(x, y))[-1] == "div"
    shifted = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [0], True)))
    assert kinds(SimplifyAlgebra(), B.div(shifted, B.sum(shifted, [1], True)))[-1] == "div", "the maximum of others"


def test_the_largest_by_itself_is_one() -> None:
    x = np.random.default_rng(0).random((64, 256)).astype(np.float32)
    x *= np.logspace(-37, 38, 64, dtype=np.float32)[:, None]
    node = B.input("x:0", F32, x.shape)
    graph = region("g", [B.div(node, B.reduce(OpKind.MAX, node, [1], True))])
    got = run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]
    np.testing.assert_array_equal(got, x / x.max(1, keepdims=True))


# single_pass_variance
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e8, 1e14, 1e16, 3e17, 1e19, 1e21, np.inf, np.nan])
def test_a_variance_in_one_pass_is_as_large_as_it_was(size: float) -> None:
    """Squares may be near the largest float, or beyond: then the variance is infinite, and NaN where a number was."""
    rows = 1024
    node = B.input("x:0", F32, (rows, 8))
    variance = B.sum(B.square(B.sub(node, B.mean(node, [0]))), [0])
    graph = region("g", [variance])
    assert SinglePassVariance().run(FoldConstants().run(graph).graph).modified
    x = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float32)
    if np.isfinite(size):
        x *= np.float32(size)
    else:
        x[5, :4] = size
    got = run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        want = ((wide - wide.mean(0)) ** 2).sum(0).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-4)


# All.
@pytest.mark.parametrize("p", ALL, ids=lambda p: p.name)
@pytest.mark.parametrize("seed", range(25))
def test_passes_are_idempotent_and_keep_the_meaning(p: Pass[TensorGraph], seed: int) -> None:
    case = make_case(random.Random(seed), 14, 300)
    first = p.run(case.graph)
    verify_graph(first.graph, static=True)
    second = p.run(first.graph)
    assert not second.modified, format_graph(first.graph) + format_graph(second.graph)
    assert first.modified or format_graph(first.graph) == format_graph(case.graph)
    want, allowed = reference(case.graph, case.values)
    compare(first.graph, interpret(first.graph, case.values), want, allowed, p.name)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(4096, 1, 4096), (100000,), (3, 70000), (70000, 3), (2, 3, 5, 7)])
def test_the_pipeline_of_passes_settles(shape: tuple[int, ...], device: object) -> None:
    x = B.input("x:0", F32, shape)
    graph = region("g", [B.sum(x, [0, len(shape) - 1] if len(shape) > 1 else [0]), B.mean(x, [0])])
    once = run_passes(graph, passes(device))  # type: ignore[arg-type]
    assert format_graph(run_passes(once, passes(device))) == format_graph(once)  # type: ignore[arg-type]


def test_the_instrument_sees_every_pass_and_every_change() -> None:
    seen: list[str] = []
    instrument = Instrument(after=[lambda name, graph: seen.append(name)])
    run_passes(region("g", [B.add(B.exp(X), B.exp(X))]), ALL, instrument)
    assert seen == ["cse"]
    assert set(instrument.seconds) == {p.name for p in ALL}


def test_a_graph_is_left_as_it_was() -> None:
    graph = TensorGraph("g", [("o", B.add(B.exp(X), B.exp(X)))])
    text = format_graph(graph)
    run_passes(graph, ALL)
    assert format_graph(graph) == text
