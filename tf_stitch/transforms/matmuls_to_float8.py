"""Matmuls of dequantised float8 become matmuls of the float8, by their scales (ir/float8_matmuls.py)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tf_stitch.ir.float8_matmuls import as_float8, find_float8_matmul
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.pass_manager import PassResult
from tf_stitch.transforms.rewriter import replace_chosen


@dataclass(frozen=True)
class MatmulsToFloat8:
    """Replaces matmuls.

    Attributes:
        chosen: which of a graph, of those that are found to be of float8.
    """

    chosen: Callable[[TensorGraph], Collection[Node]]
    name: str = "matmuls_to_float8"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return replace_chosen(graph, self.chosen(graph), _replaced)


def _replaced(matmul: Node) -> Node:
    found = find_float8_matmul(matmul)
    assert found is not None, "what its operands are made of was replaced by something else"
    return as_float8(found)
