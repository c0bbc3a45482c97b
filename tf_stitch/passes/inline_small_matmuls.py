"""Small matmuls inlined as element-wise ops and sums, so that one kernel can hold them with what is around them
(FusionStitching section 3.1: two batched dots, nine element-wise ops and two reductions)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, collect, make_node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.ir.types import Shape

Expanded = dict[tuple[Node, tuple[Node, ...]], tuple[Node, ...]]
"""What a node over new operands was rebuilt as: nodes, operands first."""


def inline_small_matmuls(nodes: Iterable[Node], expanded: Expanded | None = None) -> dict[Node, tuple[Node, ...]]:
    """`nodes` with every matmul among them inlined, and their users rebuilt.

    Args:
        nodes: static nodes, operands first; every matmul is small (planning.matmul_sizes.is_small_matmul).
        expanded: of earlier calls, to which this one adds: sets of nodes that overlap share what they are rebuilt as.

    Returns:
        node -> what takes its place, operands first, the node of equal value last; itself where nothing changed.
    """
    expanded = {} if expanded is None else expanded
    new: dict[Node, tuple[Node, ...]] = {}
    for node in nodes:
        operands = tuple([new[o][-1] if o in new else o for o in node.operands])
        matmul = isinstance(node.attrs, DotAttrs)
        if not matmul and operands == node.operands:
            new[node] = (node,)
            continue
        key = node, operands
        if key not in expanded:
            made: dict[Node, None] = {}
            collect(expand_dot(node, *operands) if matmul else make_node(node.kind, operands, node.attrs, node.loc),
                    operands, made)
            expanded[key] = tuple(made)
        new[node] = expanded[key]
    return new


def expand_dot(dot: Node, x: Node, y: Node) -> Node:
    """The matmul of x and y by the attributes of `dot`: term by term where terms are few, else column by column."""
    terms, columns = terms_of(dot), dot.type.dims[-1]
    few_terms = terms <= columns or isinstance(columns, SymbolicDim)
    return _by_terms(dot, x, y, terms) if few_terms and not isinstance(terms, SymbolicDim) else _by_columns(dot, x, y)


def _by_terms(dot: Node, x: Node, y: Node, terms: int) -> Node:
    """sum over k of x[..., :, k] * y[..., k, :], unrolled: no reduction is left."""
    assert isinstance(dot.attrs, DotAttrs)
    b, shape = Builder(dot.loc), dot.type.shape
    column = _taker(b, x, -2 if dot.attrs.transpose_a else -1, (*x.type.shape[:-2], shape[-2], 1))
    row = _taker(b, y, -1 if dot.attrs.transpose_b else -2, (*y.type.shape[:-2], 1, shape[-1]))
    products = [b.mul(b.broadcast(column(k), shape), b.broadcast(row(k), shape)) for k in range(terms)]
    return functools.reduce(b.add, products)


def _by_columns(dot: Node, x: Node, y: Node) -> Node:
    """sum(x * y[..., :, n]) for every column n: reductions over the rows of x."""
    assert isinstance(dot.attrs, DotAttrs)
    b, shape = Builder(dot.loc), dot.type.shape
    stored = x.type.shape
    axis = x.type.rank - (2 if dot.attrs.transpose_a else 1)
    along: Shape = (*y.type.shape[:-2], stored[axis], 1) if dot.attrs.transpose_a else (*y.type.shape[:-2], 1,
                                                                                        stored[axis])
    column = _taker(b, y, -2 if dot.attrs.transpose_b else -1, along)
    wide: Shape = (*shape[:-2], *stored[-2:])
    left = b.broadcast(x, wide)
    axis = left.type.rank - (2 if dot.attrs.transpose_a else 1)
    sums = [b.sum(b.mul(left, b.broadcast(column(n), wide)), [axis]) for n in range(dot.type.dims[-1])]
    return b.concat([b.reshape(s, (*shape[:-1], 1)) for s in sums], len(shape) - 1)


def _taker(b: Builder, value: Node, axis: int, shape: Shape) -> Callable[[int], Node]:
    """take(i): the slice of `value` at i along `axis`, as `shape`, in which that axis has one element."""
    axis %= value.type.rank

    def take(i: int) -> Node:
        begin = [i if a == axis else 0 for a in range(value.type.rank)]
        sizes = tuple(1 if a == axis else d for a, d in enumerate(value.type.shape))
        return b.reshape(b.slice(value, begin, [1] * value.type.rank, sizes), shape)

    return take
