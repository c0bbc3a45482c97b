"""Views have their elements where NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.strided_view import VIEWS, view_strides

B = Builder()
X = B.input("x", DType.I64, (6, 8, 10))


def path_to(node: Node) -> list[Node]:
    return [*path_to(node.operands[0]), node] if node.kind in VIEWS else []


HALF = B.slice(X, (1, 0, 4), (2, 1, 1), (2, 8, 5))
GRAPHS = {
    "itself": X, "transposed": B.transpose(X, [2, 0, 1]), "sliced": HALF, "split": B.reshape(X, (2, 3, 8, 5, 1, 2)),
    "merged": B.reshape(X, (48, 10)), "split_slice": B.reshape(HALF, (2, 2, 4, 1, 5)),
    "heads": B.transpose(B.reshape(B.slice(X, (0, 0, 2), (1, 1, 1), (6, 8, 6)), (6, 8, 3, 2)), [0, 2, 1, 3]),
    "merged_slice": B.reshape(B.slice(X, (2, 0, 0), (1, 1, 1), (3, 8, 10)), (24, 10))}


@pytest.mark.parametrize("name", GRAPHS)
def test_strides(name: str) -> None:
    node = GRAPHS[name]
    found = view_strides(path_to(node), X)
    assert found is not None
    memory = np.arange(480)
    [want] = interpret(region("view", [node]), {"x": memory.reshape(6, 8, 10)}).values()
    got = np.lib.stride_tricks.as_strided(memory[found.offset:], node.type.dims, [8 * n for n in found.axes])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("node", [B.reshape(B.transpose(X, [1, 0, 2]), (48, 10)), B.reshape(HALF, (2, 40))])
def test_reshapes_that_copy(node: Node) -> None:
    assert view_strides(path_to(node), X) is None
