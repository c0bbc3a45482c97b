"""Matmuls get zeros where that is predicted to be faster, and regions with such matmuls compute what they did."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes import pad_matmuls
from tf_stitch.passes.pad_matmuls import matmuls_to_pad
from tf_stitch.targets.target import LARGE

B, BF16 = Builder(), DType.BF16
WORDS = 50257


def scores(words: int, rows: int = 4096, width: int = 768) -> Node:
    """Of words whose embeddings are rounded to halves in the region."""
    embeddings = B.cast(B.input("w:0", DType.F32, (words, width)), BF16)
    return B.dot(B.input("x:0", BF16, (rows, width)), embeddings, transpose_b=True)


def padded(node: Node) -> int:
    """How many matmuls get zeros."""
    return len(matmuls_to_pad(region("g", [node]), PatternCompiler(H200, True, LARGE)))


def test_a_vocabulary_of_odd_size() -> None:
    assert padded(B.exp(scores(WORDS))) == 1
    assert padded(B.exp(scores(WORDS + 7))) == 0, "rows of 50,264 begin at multiples of 16 bytes"


def test_copies_count() -> None:
    """Of a matmul of few rows the weights are most of the bytes: they would be read twice more."""
    weights = B.input("w:0", BF16, (768, WORDS + 3))
    assert padded(B.exp(B.dot(B.input("x:0", BF16, (32, 768)), weights))) == 0
    assert padded(B.exp(B.dot(B.input("x:0", BF16, (4096, 768)), weights))) == 1


def loss(words: int) -> TensorGraph:
    """A softmax and what the gradients of its scores go into: three matmuls."""
    found = scores(words, 24, 40)
    gradient = B.cast(B.sub(p.softmax(B.cast(found, DType.F32)), B.input("t:0", DType.F32, (24, words))), BF16)
    embeddings = found.operands[1]
    return region("g", [B.dot(gradient, embeddings), B.dot(gradient, found.operands[0], transpose_a=True)])


@pytest.mark.parametrize("words", [45, 46, 52, 300])
@pytest.mark.parametrize("order", [Order.BEHIND, Order.AHEAD])
def test_kernels_give_what_their_nodes_give(words: int, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pad_matmuls, "_gains", lambda *_: True)
    graph = loss(words)
    built, values = compiled(graph, H200), random_values(graph)
    assert all(side % 8 == 0 for node in built.plan.graph.nodes() if node.kind is OpKind.DOT
               for side in (node.type.dims[-1], *(o.type.dims[-1] for o in node.operands)))  # fmt: skip
    want, allowed = reference(graph, values)
    compare(graph, run_on_cpu(graph, built, values, Adversary(order)), want, allowed, "CUDA on a CPU")
