"""Which matrix products become IR, so that regions may hold them as library calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Symbol

SMALL_TERMS = 1 << 20
"""Multiplications of a small product. Up to here Eigen takes about as long as oneDNN, and TensorFlow's executor and the
op's own set-up are a good part of an op's time; at twice as many oneDNN is a fifth faster (two cores with AVX-512)."""


class Products(Enum):
    """Which products of a device."""

    SMALL = "small"
    ALL = "all"


Scope = Mapping[str, Products]
"""By device type ("CPU", "GPU"); none of those that it lacks."""
NO_PRODUCTS: Scope = {}


def are_small(values: Iterable[Node], given: Collection[Node]) -> bool:
    """Whether all products on the way from `given` to `values` are small: of a vector, or of few terms."""
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
    assert isinstance(product.attrs, DotAttrs)
    if product.type.dtype not in (DType.F32, DType.F64):
        return False  # oneDNN multiplies half types by instructions of their own
    *batch, m, n = product.type.shape
    if m == 1 or n == 1:
        return True
    terms = 1
    for dim in (*batch, m, n, product.operands[0].type.shape[-2 if product.attrs.transpose_a else -1]):
        if isinstance(dim, Symbol):
            return False
        terms *= dim
    return terms <= SMALL_TERMS
