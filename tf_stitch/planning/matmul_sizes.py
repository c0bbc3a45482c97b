"""Which contractions kernels compute along with what is around them, and which need a library call."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import library_of

SMALL_MATMUL = 16
"""Terms of a sum, or columns, up to which a matmul can be inlined as element-wise ops."""
LONGEST_SUM = 4096
"""Terms of each of a few columns; longer sums have to be split over the device, as libraries do."""


def is_small_matmul(node: Node) -> bool:
    """A matmul with few terms per element, or few columns: a kernel may compute it along with what is around it
    (passes/inline_small_matmuls.py). Not by a number that changes: each would be another kernel."""
    if not isinstance(node.attrs, DotAttrs) or not node.type.dtype.is_float:
        return False
    terms, columns = terms_of(node), node.type.dims[-1]
    if 0 < terms <= SMALL_MATMUL and not isinstance(terms, SymbolicDim):
        return True
    return 0 < columns <= SMALL_MATMUL and not isinstance(columns, SymbolicDim) \
        and terms <= LONGEST_SUM and not node.attrs.transpose_a



def is_large_matmul(node: Node) -> bool:
    """A matmul that only a library call computes."""
    return node.category is Category.CONTRACTION and not is_small_matmul(node)


def is_large(node: Node) -> bool:
    """What only a library call computes, where there is one: a convolution, an attention, a matmul of float8 or of many
    terms."""
    called = (Category.CONVOLUTION, Category.FLOAT8_CONTRACTION, Category.ATTENTION)
    return node.category in called or is_large_matmul(node)


def needs_library(node: Node, libraries: Sequence[Library]) -> bool:
    """Whether a call of one of these libraries has to compute this node: no kernel holds it, attention apart."""
    return library_of(node, libraries) is not None and not is_small_matmul(node)
