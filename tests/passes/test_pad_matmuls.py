"""Matmuls with zeros added to their rows give what they gave."""

from __future__ import annotations

import pytest

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.matrices import ROW_BYTES, row_bytes
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.pad_matmuls import PadMatmuls

B = Builder()
EVERY = PadMatmuls(lambda graph: {n for n in graph.nodes() if n.kind is OpKind.DOT and row_bytes(n) < ROW_BYTES})


def matmul(m: int, k: int, n: int, first: bool = False, second: bool = False, dtype: DType = DType.BF16,
           batch: tuple[int, ...] = ()) -> Node:  # fmt: skip
    x = B.input("x:0", dtype, (*batch, *((k, m) if first else (m, k))))
    return B.dot(x, B.input("y:0", dtype, (*batch, *((n, k) if second else (k, n)))), first, second)


def padded(outputs: list[Node]) -> TensorGraph:
    """The graph after the pass; values are as before."""
    before = region("g", outputs)
    return same_values(before, EVERY.run(before).graph)


@pytest.mark.parametrize(("dtype", "unit"), [(DType.BF16, 8), (DType.F16, 8), (DType.F32, 4)])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("sizes", [(7, 16, 8), (8, 13, 16), (16, 8, 21), (7, 13, 21)])
def test_rows_begin_at_multiples_of_16_bytes(sizes: tuple[int, int, int], first: bool, second: bool, dtype: DType,
                                             unit: int) -> None:
    graph = padded([matmul(*sizes, first, second, dtype, batch=(2,))])
    [dot] = [n for n in graph.nodes() if n.kind is OpKind.DOT]
    assert all(n.type.dims[-1] % unit == 0 for n in (dot, *dot.operands))


@pytest.mark.parametrize(("first", "sizes"), [(False, (7, 16, 8)), (True, (8, 13, 16))])
def test_what_is_aligned_stays(first: bool, sizes: tuple[int, int, int]) -> None:
    """Rows of the first matrix may be of any number, where they are not what is stored side by side; so may terms."""
    before = region("g", [matmul(*sizes, first)])
    assert not EVERY.run(before).modified


def test_one_copy_serves_several_matmuls() -> None:
    x, y = B.input("x:0", DType.F16, (4, 13)), B.input("y:0", DType.F16, (13, 8))
    graph = padded([B.dot(x, y), B.dot(x, B.exp(y))])
    assert sum(n.kind is OpKind.PAD for n in graph.nodes()) == 3, "of x, y and exp(y)"
