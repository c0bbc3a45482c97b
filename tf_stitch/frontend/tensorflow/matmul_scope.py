"""Which matmuls and convolutions become IR, so that regions may hold them as library calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum

from tf_stitch.ir.convolutions import is_sum_of_windows
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import Category, OpKind

SMALL_TERMS = 1 << 20
"""Multiplications of a small matmul. Up to here Eigen takes about as long as oneDNN, and TensorFlow's executor and the
op's own set-up are a good part of an op's time, also in half types."""

SMALL_ROWS = 512
"""Rows of all left matrices of a small matmul, and terms of a sum. Skinny matmuls are a matter of memory, not
of calls, and better apart from what is fused around them (word2vec's losses, dyn-rnn's logits)."""

FEW_ROWS = range(8, 33)
"""Rows of all left matrices of matmuls that are small although they multiply more, since the right matrix stays in a
core's cache. With 80 and 128 rows, which oneDNN multiplies as fast, a train step of BERT took a tenth longer."""

SOME_ROWS = range(8, 65)
"""As FEW_ROWS, where the right matrix is larger and transposed, which costs TensorFlow 1.3 ns an element of it more
whatever the rows, as if one thread transposed it first: 64x2048 by 2048x2048 took 3.8 ms, 1.3 ms without, and Eigen
1.4 ms (two cores with AVX-512)."""

CACHED_ELEMENTS = 1 << 18
"""Of a right matrix that stays in a core's cache. Up to here Eigen was 1.1 to 3 times as fast as TensorFlow's op, with
four times as many elements 0.8 to 1."""

TOO_LARGE = "is a library call too large for a region"
"""The reason that keeps other matmuls out of regions, behind an op's name."""


NOT_FOR_KERNELS = "is a library call: kernels are for images of one filter a channel"
"""The reason that keeps other convolutions out of regions without a library for them, behind an op's name."""


class Matmuls(Enum):
    """Which matmuls of a device, and whether convolutions too."""

    SMALL = "small"
    ALL = "all"
    ALL_AND_CONVOLUTIONS = "all and convolutions"


Scope = Mapping[str, Matmuls]
"""By device type ("CPU", "GPU"); none of those that it lacks."""
NO_MATMULS: Scope = {}


def are_small(values: Iterable[Node], given: Collection[Node]) -> bool:
    """Whether all matmuls on the way from `given` to `values` are small. One of a size known at run time only is if it
    is of a vector."""
    return all(_is_small(n) for n in _between(values, given) if n.kind is OpKind.DOT)


def are_for_kernels(values: Iterable[Node], given: Collection[Node]) -> bool:
    """Whether kernels compute all convolutions on the way from `given` to `values`: in float32 and float64, since a
    CPU's library has instructions for halves."""
    return all(is_sum_of_windows(n) and n.type.dtype in (DType.F32, DType.F64) for n in _between(values, given)
               if n.category is Category.CONVOLUTION)


def multiplications(values: Iterable[Node], given: Collection[Node]) -> int | None:
    """Multiplications of the static matmuls between `given` and `values`; None if there is another library call, or an
    unknown size."""
    calls = [n for n in _between(values, given) if n.kind is OpKind.DOT or n.category is Category.CONVOLUTION]
    if not all(n.kind is OpKind.DOT and all(x.type.is_static for x in (n, *n.operands)) for n in calls):
        return None
    return sum(n.type.numel * terms_of(n) for n in calls)


def _between(values: Iterable[Node], given: Collection[Node]) -> Iterator[Node]:
    seen, stack = set(given), list(values)
    while stack:
        node = stack.pop()
        if node not in seen:
            yield node
            seen.add(node)
            stack.extend(node.operands)


def _is_small(matmul: Node) -> bool:
    types = (matmul.type, *(o.type for o in matmul.operands))
    if not all(t.is_static for t in types):
        return 1 in matmul.type.shape[-2:]
    assert isinstance(matmul.attrs, DotAttrs)
    terms, columns = terms_of(matmul), matmul.type.dims[-1]
    rows = matmul.type.numel // max(columns, 1)
    if max(rows, terms) <= SMALL_ROWS and matmul.type.numel * terms <= SMALL_TERMS:
        return True
    if matmul.type.dtype is DType.BF16:
        return False  # oneDNN has instructions for them: 1.8 times as fast as float32 where an op's own time is small
    if terms * columns <= CACHED_ELEMENTS:
        return rows in FEW_ROWS
    return rows in SOME_ROWS and matmul.attrs.transpose_b
