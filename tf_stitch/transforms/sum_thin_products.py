"""Products of a matrix and one vector, or a few, as element-wise products and sums: x[1, k] W[k, n] reads W once and
computes little, as a reduction does. A library's tiles are made for many rows, and it runs alone; a sum is scheduled,
costed and fused as any other op that is bound by memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.sizes import Size
from tf_stitch.pass_manager import PassResult

MOST_ROWS = 16
"""Rows of which it is asked at all whether sums are faster: each reads the matrix once more, if only from a cache."""

IsFaster: TypeAlias = Callable[[Node, Node], bool]
"""(product, sum): whether a kernel that computes the sum takes less time than the library's call."""


@dataclass(frozen=True)
class SumThinProducts:
    """Writes products of few rows as sums where that is faster.

    One row of a size that changes is a sum in any case: what is faster must not depend on a number, or two lengths
    would have different kernels.

    Attributes:
        is_faster: asked for products of sizes that do not change.
        fewest_terms: shorter sums stay products, which planning can write out term by term.
        is_large: whether planning cannot write out a product of one column itself.
        kept: products of a graph that stay in any case.
    """

    is_faster: IsFaster
    fewest_terms: int
    is_large: Callable[[Node], bool]
    kept: Callable[[TensorGraph], Collection[Node]] = lambda graph: ()
    name: str = "sum_thin_products"

    def run(self, graph: TensorGraph) -> PassResult:
        kept, new = self.kept(graph), dict[Node, Node]()
        sums = 0
        for node in graph.nodes():
            operands = tuple(new[o] for o in node.operands)
            same = node if operands == node.operands else make_node(node.kind, operands, node.attrs, node.loc)
            written = None if node in kept else self._sum(same)
            sums += written is not None
            new[node] = written or same
        return PassResult(TensorGraph(graph.name, [(key, new[n]) for key, n in graph.outputs]), sums > 0)

    def _sum(self, node: Node) -> Node | None:
        if not isinstance(node.attrs, DotAttrs) or not node.type.is_static or not node.type.numel:
            return None
        terms = terms_of(node)
        if not isinstance(terms, Size) and terms < self.fewest_terms:
            return None
        if node.type.dims[-2] > MOST_ROWS and not self.is_large(node):
            return None
        changes = any(isinstance(d, Size) for d in (*node.type.dims, terms))
        written = as_sum(node, 1 if changes else MOST_ROWS)
        return written if written is not None and (changes or self.is_faster(node, written)) else None


def as_sum(product: Node, most_rows: int) -> Node | None:
    """The value of a static product as one sum over an axis; None if neither matrix is so thin. Terms are added in the
    type that halves are computed in, and rounded once.

    Args:
        most_rows: of the left matrix; of the right one a single column counts.
    """
    assert isinstance(product.attrs, DotAttrs)
    a, b = product.operands
    m, n = product.type.dims[-2:]
    if not isinstance(m, Size) and m <= most_rows:
        return _summed(product, a, product.attrs.transpose_a, b, product.attrs.transpose_b)
    if not isinstance(n, Size) and n == 1:
        return _summed(product, b, not product.attrs.transpose_b, a, not product.attrs.transpose_a)
    return None


def _summed(product: Node, thin: Node, lies_down: bool, matrix: Node, rows: bool) -> Node:
    """sum over k of thin[..., i, k] matrix[..., k, j], or matrix[..., j, k] if the terms of a sum are `rows` of it. The
    matrix stays as it is where it can: a reshape of it that several kernels read would be a copy.

    Args:
        lies_down: thin is [..., k, i].
    """
    b, dtype = Builder(product.loc), product.type.dtype
    *batch, first, last = thin.type.shape
    count, terms = (last, first) if lies_down else (first, last)
    if lies_down and count != 1:
        thin = b.transpose(thin, [*range(len(batch)), len(batch) + 1, len(batch)])
    several = () if count == 1 else (count,)
    x = b.reshape(thin, (*batch, *several, 1, terms) if rows else (*batch, *several, terms, 1))
    y = b.reshape(matrix, (*batch, 1, *matrix.type.shape[-2:])) if batch and several else matrix
    wide = b.mul(b.cast(x, dtype.compute), b.cast(y, dtype.compute))
    total = b.sum(wide, [wide.type.rank - (1 if rows else 2)])
    return b.reshape(b.cast(total, dtype), product.type.shape)
