"""Matmuls of one matrix become one matmul where that saves time, and never a cycle."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import region
from tf_stitch.device import spec
from tf_stitch.errors import SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes.horizontal_gemm_fusion import HorizontalGemmFusion

B, F32 = Builder(), DType.F32
KERNELS = spec.H200.profile.matmul_kernels
EAGER = HorizontalGemmFusion(processors=2, gbps=1e9, matmuls=KERNELS)
"""Two processors and a memory that costs nothing: waves are saved as soon as tiles are left over."""
H200 = HorizontalGemmFusion(processors=132, gbps=4200, matmuls=KERNELS)
ROWS, TERMS = 300, 4096  # three tiles high: an odd number for two processors
"""Many terms: a tile takes longer than a launch."""


def matrix(name: str, *dims: int) -> Node:
    return B.input(f"{name}:0", F32, dims)


X = matrix("x", ROWS, TERMS)


def fused(*outputs: Node, by: HorizontalGemmFusion = EAGER) -> TensorGraph:
    graph = region("g", list(outputs))
    result = by.run(graph)
    verify_graph(result.graph, static=True)
    assert [n.type for _, n in result.graph.outputs] == [n.type for _, n in graph.outputs]
    return result.graph


def matmuls(graph: TensorGraph) -> list[tuple[int, ...]]:
    return [n.type.dims for n in graph.nodes() if n.kind is OpKind.DOT]


def three(transpose: bool = False) -> list[Node]:
    """X with matrices of 20, 30 and 40 columns."""
    return [B.dot(X, matrix(f"w{n}", *((n, TERMS) if transpose else (TERMS, n))), transpose_b=transpose)
            for n in (20, 30, 40)]


@pytest.mark.parametrize("transpose", [False, True])
def test_one_matmul_gives_what_three_gave(transpose: bool) -> None:
    before = region("g", [B.exp(p) for p in three(transpose)])
    after = EAGER.run(before).graph
    assert matmuls(after) == [(ROWS, 90)]
    random = np.random.default_rng(1)
    values = {str(n.attrs.key): random.standard_normal(n.type.dims).astype(np.float32) / 64 for n in before.inputs()}
    want, got = interpret(before, values), interpret(after, values)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5)


@pytest.mark.parametrize("fused_too", [True, False])
def test_biases_are_fused_too_if_every_matmul_has_one(fused_too: bool) -> None:
    biases = [matrix(f"b{n}", n) for n in (20, 30, 40)]
    sums = [B.add(matmul, bias) for matmul, bias in zip(three(), biases, strict=True)]
    if not fused_too:
        sums[1] = B.add(three()[1], B.exp(biases[1]))  # made in the region: matmuls would wait for it
    before = region("g", [B.exp(s) for s in sums])
    after = EAGER.run(before).graph
    assert matmuls(after) == [(ROWS, 90)]
    assert [n.type.dims for n in after.nodes() if n.kind is OpKind.ADD] == ([(ROWS, 90)] if fused_too else
                                                                            [(ROWS, n) for n in (20, 30, 40)])
    random = np.random.default_rng(1)
    values = {str(n.attrs.key): random.standard_normal(n.type.dims).astype(np.float32) / 64 for n in before.inputs()}
    want, got = interpret(before, values), interpret(after, values)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5)


def test_each_slice_keeps_its_nodes_name() -> None:
    locs = [SourceLoc(name, "MatMul") for name in ("query", "key", "value")]
    graph = fused(*(Builder(loc).dot(X, matrix(loc.node, TERMS, 30)) for loc in locs))
    assert [n.loc for n in graph.nodes() if n.kind is OpKind.SLICE] == locs


def test_shared_left_operands_that_are_transposed() -> None:
    x = matrix("t", TERMS, ROWS)
    graph = fused(*(B.dot(x, matrix(f"d{i}", TERMS, 64), transpose_a=True) for i in range(2)))
    assert matmuls(graph) == [(ROWS, 128)]


def test_attention_of_a_large_batch_on_an_h200_and_of_a_small_one() -> None:
    def graph(rows: int) -> TensorGraph:
        x = matrix("x", rows, 768)
        return fused(*(B.exp(B.dot(x, matrix(name, 768, 768))) for name in "qkv"), by=H200)

    assert matmuls(graph(4096)) == [(4096, 2304)]
    assert matmuls(graph(128)) == [(128, 768)] * 3, "eighteen tiles of a wave: nothing to save"


def test_matmuls_that_other_matmuls_read_stay() -> None:
    first, second, third = three()
    assert len(matmuls(fused(first, B.dot(second, matrix("y", 30, 5)), third))) == 3  # two are one, and the reader
    turned = B.reshape(B.transpose(second, [1, 0]), (30, ROWS))
    assert len(matmuls(fused(first, B.dot(turned, matrix("z", ROWS, 5)), third))) == 3


def test_a_matmul_that_waits_for_another_is_not_fused_with_it() -> None:
    first = B.dot(X, matrix("w", TERMS, 20))
    total = B.reshape(B.sum(first, [0, 1]), (1, 1))
    second = B.dot(X, B.mul(matrix("v", TERMS, 30), total))
    assert matmuls(fused(second)) == [(ROWS, 20), (ROWS, 30)]


def test_two_pairs_that_wait_for_each_other_crosswise_make_no_cycle() -> None:
    """a1 -> b2 and b1 -> a2: a1 and a2 share a matrix, as b1 and b2 do. Joining both pairs would be a cycle."""
    y = matrix("y", ROWS, TERMS)
    a1, b1 = B.dot(X, matrix("a1", TERMS, 20)), B.dot(y, matrix("b1", TERMS, 20))

    def after(matmul: Node, name: str) -> Node:
        return B.mul(matrix(name, TERMS, 20), B.reshape(B.sum(matmul, [0, 1]), (1, 1)))

    a2, b2 = B.dot(X, after(b1, "a2")), B.dot(y, after(a1, "b2"))
    assert len(matmuls(fused(B.exp(a2), B.exp(b2)))) == 4


def test_sums_that_nothing_waits_for_are_fused_though_they_wait() -> None:
    """Gradients of the matrices."""
    x = matrix("t", TERMS, ROWS)
    made = [B.dot(matrix(f"g{i}", TERMS, 64), matrix(f"h{i}", 64, 64)) for i in range(3)]
    graph = fused(*(B.dot(x, B.exp(g), transpose_a=True) for g in made))
    assert (ROWS, 192) in matmuls(graph)


def test_other_types_operands_and_graphs_without_matmuls_stay() -> None:
    half = B.input("h:0", DType.F16, (ROWS, TERMS))
    assert len(matmuls(fused(B.dot(X, matrix("w", TERMS, 20)),
                               B.dot(half, B.input("v:0", DType.F16, (TERMS, 20)))))) == 2
    graph = region("g", [B.exp(X)])
    result = EAGER.run(graph)
    assert result.graph is graph
    assert not result.modified
