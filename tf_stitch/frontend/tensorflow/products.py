"""Which matrix products become IR, so that regions may hold them as library calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_kinds import OpKind

SMALL_TERMS = 1 << 20
"""Multiplications of a small product. Up to here Eigen takes about as long as oneDNN, and TensorFlow's executor and the
op's own set-up are a good part of an op's time; at twice as many oneDNN is a fifth faster (two cores with AVX-512)."""

SMALL_ROWS = 512
"""Rows of all left matrices of a small product, and terms of a sum. Tall and thin products are a matter of memory, not
of calls, and better apart from what is fused around them (word2vec's losses, dyn-rnn's logits)."""


class Products(Enum):
    """Which products of a device."""

    SMALL = "small"
    ALL = "all"


Scope = Mapping[str, Products]
"""By device type ("CPU", "GPU"); none of those that it lacks."""
NO_PRODUCTS: Scope = {}


def are_small(values: Iterable[Node], given: Collection[Node]) -> bool:
    """Whether all products on the way from `given` to `values` are small. One of a size known at run time only is if it
    is of a vector."""
    seen, stack = set(given), list(values)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        if node.kind is OpKind.DOT and not _is_small(node):
            return False
        seen.add(node)
        stack.extend(node.operands)
    return True


def _is_small(product: Node) -> bool:
    if product.type.dtype not in (DType.F32, DType.F64):
        return False  # oneDNN multiplies half types by instructions of their own
    types = (product.type, *(o.type for o in product.operands))
    if not all(t.is_static for t in types):
        return 1 in product.type.shape[-2:]
    terms, columns = terms_of(product), product.type.dims[-1]
    rows = product.type.numel // max(columns, 1)
    return max(rows, terms) <= SMALL_ROWS and product.type.numel * terms <= SMALL_TERMS
