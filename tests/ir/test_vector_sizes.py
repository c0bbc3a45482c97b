"""Which sizes have to be multiples of a vector: rows' lengths, and what odd rows are as many of."""

from __future__ import annotations

import pytest

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.ir.vector_sizes import dimensions_of_vectors

B = Builder()
b, n, m = size("b", 8), size("n", 12), size("m", 1)


@pytest.mark.parametrize(("shapes", "wanted"), [
    ([(b, n)], {"n"}),
    ([(b, 4, n), (b, n, 64)], {"n"}),
    ([(b, n, m), (b, m)], {"m"}),
    ([(b, n), (b, m)], {"n", "m"}),
    ([(b, 64), (b,)], set()),  # a number for each row
    ([(b,), (3,), ()], {"b"}),
    ([(b, 15)], {"b"}),
    ([(b, 30), (b, 2)], {"b"}),
    ([(b, n, 15)], {"b", "n"}),
    ([(b, n), (b * n, 15)], {"n"}),
    ([(64, b * n)], {"b", "n"}),
    ([(64, b * n), (b, n)], {"n"}),
    ([(b, n, 1), (b, 1)], {"n"}),
    ([(b, n + 1)], {"n"}),
])  # fmt: skip
def test_dimensions_of_vectors(shapes: list[tuple[int, ...]], wanted: set[str]) -> None:
    inputs = [B.input(f"i{i}", DType.F32, shape) for i, shape in enumerate(shapes)]
    assert dimensions_of_vectors(TensorGraph("g", [(f"o{i}", B.exp(x)) for i, x in enumerate(inputs)])) == wanted
