"""What a pattern becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.support.stitched_matmuls import B, row, x
from tests.support.whole_patterns import whole
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, make_node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.libraries.gemm import GEMM
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.planning import pattern_kind
from tf_stitch.planning.attention import Attention
from tf_stitch.planning.pattern_kind import LOOPS, kind_of
from tf_stitch.planning.stitched_matmul import StitchedMatmul

F32 = DType.F32


def matmul(columns: int = 48, in_kernel: bool = False) -> Node:
    node = B.dot(x("x", F32, 40, 64), x("w", F32, 64, columns))
    assert isinstance(node.attrs, DotAttrs)
    return make_node(node.kind, node.operands, replace(node.attrs, in_kernel=in_kernel), node.loc)


def biased(product: Node) -> Node:
    return B.add(product, row(x("b", F32, int(product.type.dims[-1])), product))


def test_a_matmul_is_a_call_with_an_addend_too() -> None:
    assert kind_of(whole(matmul()), LIBRARIES) is GEMM
    assert kind_of(whole(B.add(matmul(), x("y", F32, 40, 48))), LIBRARIES) is GEMM


def test_a_matmul_is_stitched_with_more_than_a_call_computes_and_where_a_kernel_was_given_it() -> None:
    tall = p.gelu_erf(biased(matmul()))
    for result in (tall, matmul(in_kernel=True)):
        assert isinstance(kind_of(whole(result), LIBRARIES), StitchedMatmul)


def test_loops_hold_what_no_library_computes() -> None:
    values = x("v", F32, 8, 32)
    assert kind_of(whole(p.softmax(values)), LIBRARIES) is LOOPS
    assert kind_of(whole(biased(matmul(columns=4))), LIBRARIES) is LOOPS
    assert kind_of(whole(matmul()), ()) is LOOPS, "without libraries"


def test_attention_whatever_libraries_there_are() -> None:
    q, k, v = (B.input(name, F32, (2, 3, 40, 24)) for name in "qkv")
    scores = p.softmax(B.mul(B.dot(q, k, False, True), p.const(0.2, q)))
    pattern = whole(B.dot(scores, v))
    for libraries in (LIBRARIES, ()):
        assert isinstance(kind_of(pattern, libraries), Attention)


def test_a_pattern_is_recognized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = whole(matmul())
    assert kind_of(pattern, LIBRARIES) is GEMM
    monkeypatch.setattr(pattern_kind, "_kind_of", None)
    assert kind_of(pattern, LIBRARIES) is GEMM
