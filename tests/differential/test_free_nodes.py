"""Values behind free nodes: each kernel that needs a free node computes it anew, from what somebody has to write."""

from __future__ import annotations

import pytest

from tests.differential.runner import check_all, region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph


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
