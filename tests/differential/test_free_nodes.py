"""Values behind free nodes: each kernel that needs a free node computes it anew, from what somebody has to write."""

from __future__ import annotations

import pytest

from tests.differential.runner import check_all, region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.free_nodes import free_nodes


def single_matmul(terms: int, read: int, live_out_first: bool) -> TensorGraph:
    """A matmul of one element, arithmetic on it that is live-out, and a concatenation that computes that anew."""
    b = Builder()
    matmul = b.dot(b.input("x", DType.F32, (1, terms)), b.input("y", DType.F32, (terms, 1)))
    negated = b.neg(b.reshape(matmul, (1,)))
    outputs: list[Node] = [b.concat([negated] * read, 0), negated]
    return region("single_matmul", outputs[::-1] if live_out_first else outputs)


@pytest.mark.parametrize("live_out_first", [False, True])
@pytest.mark.parametrize("read", [2, 3])
@pytest.mark.parametrize("terms", [1, 3, 20])
def test_arithmetic_on_a_matmul_of_one_element(terms: int, read: int, live_out_first: bool) -> None:
    check_all(single_matmul(terms, read, live_out_first))


@pytest.mark.parametrize("live_out", [False, True])
def test_what_lies_in_memory_is_looked_up_as_another_shape(live_out: bool) -> None:
    """No kernel copies it, not even for several that look it up."""
    b = Builder()
    text = b.reshape(b.input("text", DType.F32, (1, 97)), (97, 1))
    at = b.slice(b.cumsum(b.iota((40,), 0, DType.I32), False, False), [3], [1], (5,))
    first, second = b.op(OpKind.GATHER, text, at), b.op(OpKind.GATHER, text, b.iota((3,), 0, DType.I32))
    outputs = [b.sum(first, [0]), b.exp(b.sum(second, [0])), *([text] if live_out else [])]
    graph = region("lookups", outputs)
    assert text in free_nodes(graph.nodes())
    check_all(graph)


def test_a_shape_that_somebody_computes_with_is_nobody_elses() -> None:
    b = Builder()
    text = b.reshape(b.input("text", DType.F32, (1, 97)), (97, 1))
    graph = region("both", [b.op(OpKind.GATHER, text, b.iota((3,), 0, DType.I32)), b.exp(text)])
    assert text not in free_nodes(graph.nodes())
