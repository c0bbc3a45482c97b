"""Matmuls of a matrix and one vector, or a few, as elementwise multiplications and sums: x[1, k] W[k, n] reads W once
and computes little, as a reduction does. A library's tiles are made for many rows, and it runs alone; a sum is
scheduled, costed and fused as any other op that is bound by memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from tf_stitch.device.profile import DeviceProfile
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, collect
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.rewriter import replace_chosen
from tf_stitch.planning.attention_choice import matmuls_of_attentions
from tf_stitch.planning.matmul_sizes import SMALL_MATMUL, is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import Pattern, alone

MOST_ROWS = 16
"""Of a matmul that may be a sum: each reads the matrix once more, if only from a cache."""


@dataclass(frozen=True)
class LowerGemvToReduction:
    """Writes matmuls of few rows as sums.

    Attributes:
        chosen: which matmuls of a graph, of those that `as_sum` takes.
    """

    chosen: Callable[[TensorGraph], Collection[Node]]
    name: str = "lower_gemv_to_reduction"

    @classmethod
    def where_faster(cls, context: PassContext) -> LowerGemvToReduction:
        """Lowers the matmuls that a kernel sums faster than a library multiplies."""
        return cls(partial(matmuls_to_sum, times=context.times))

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return replace_chosen(graph, self.chosen(graph), _written)


def _written(matmul: Node) -> Node:
    written = as_sum(matmul)
    assert written is not None
    return written


def changes(matmul: Node) -> bool:
    """Whether the size of a matrix is a number that changes."""
    return any(isinstance(d, SymbolicDim) for d in (*matmul.type.dims, terms_of(matmul)))


def as_sum(matmul: Node) -> Node | None:
    """The value of a static matmul as one sum over an axis; None unless the left matrix has MOST_ROWS, or one if a
    size changes, or the right one a single column. Terms are added in the type that halves are computed in, and rounded
    once."""
    assert isinstance(matmul.attrs, DotAttrs)
    a, b = matmul.operands
    m, n = matmul.type.dims[-2:]
    if not isinstance(m, SymbolicDim) and m <= (1 if changes(matmul) else MOST_ROWS):
        return _summed(matmul, a, matmul.attrs.transpose_a, b, matmul.attrs.transpose_b)
    if not isinstance(n, SymbolicDim) and n == 1:
        return _summed(matmul, b, not matmul.attrs.transpose_b, a, not matmul.attrs.transpose_a)
    return None


def _summed(matmul: Node, skinny: Node, lies_down: bool, matrix: Node, rows: bool) -> Node:
    """sum over k of skinny[..., i, k] matrix[..., k, j], or matrix[..., j, k] if the terms of a sum are `rows` of it.
    The matrix stays as it is where it can: a reshape of it that several kernels read would be a copy.

    Args:
        lies_down: skinny is [..., k, i].
    """
    b, dtype = Builder(matmul.loc), matmul.type.dtype
    *batch, first, last = skinny.type.shape
    count, terms = (last, first) if lies_down else (first, last)
    if lies_down and count != 1:
        skinny = b.transpose(skinny, [*range(len(batch)), len(batch) + 1, len(batch)])
    several = () if count == 1 else (count,)
    x = b.reshape(skinny, (*batch, *several, 1, terms) if rows else (*batch, *several, terms, 1))
    y = b.reshape(matrix, (*batch, 1, *matrix.type.shape[-2:])) if batch and several else matrix
    wide = b.mul(b.cast(x, dtype.compute), b.cast(y, dtype.compute))
    total = b.sum(wide, [wide.type.rank - (1 if rows else 2)])
    return b.reshape(b.cast(total, dtype), matmul.type.shape)


def matmuls_to_sum(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """The matmuls of a graph whose sum takes a kernel less time than the matmul takes a library.

    Planning can inline matmuls of few terms, or of one column, by itself. Matmuls of an attention stay where one
    kernel beats their sums and the softmax between them.
    """
    found = {node for node in graph.nodes() if _is_candidate(node) and _is_faster(node, times)}
    return found and found - matmuls_of_attentions(graph, TimesWithSums(times))


def _is_candidate(node: Node) -> bool:
    if not isinstance(node.attrs, DotAttrs) or not node.type.is_static or not node.type.numel:
        return False
    terms = terms_of(node)
    if not isinstance(terms, SymbolicDim) and terms <= SMALL_MATMUL:
        return False
    return not node.type.dims[-2] > MOST_ROWS or is_large_matmul(node)


def _is_faster(matmul: Node, times: PatternTimes) -> bool:
    """As a sum. One row of a size that changes is one in any case: what is faster must not depend on a number, or two
    lengths would have different kernels."""
    if changes(matmul):
        return as_sum(matmul) is not None
    summed = _sum_us(matmul, times)
    if summed is None:
        return False
    called = times.exact(alone(matmul))
    return called is None or summed < called


def _sum_us(matmul: Node, times: PatternTimes) -> float | None:
    """Microseconds of a matmul as a sum; None if it cannot be one."""
    written = as_sum(matmul)
    if written is None:
        return None
    nodes: dict[Node, None] = {}
    collect(written, set(matmul.operands), nodes)
    return times.exact(Pattern(tuple(nodes), (written,), frozenset()))


@dataclass(frozen=True)
class TimesWithSums:
    """Times where a matmul alone is a sum if that is faster."""

    times: PatternTimes

    @property
    def least_us(self) -> float:
        """The least time of a launch, without sums or with them."""
        return self.times.least_us

    @property
    def profile(self) -> DeviceProfile:
        """The profile of the device."""
        return self.times.profile

    def estimate(self, pattern: Pattern) -> float | None:
        """Without sums."""
        return self.times.estimate(pattern)

    def exact(self, pattern: Pattern) -> float | None:
        """Microseconds; None if it cannot be one kernel, call or sum."""
        known = self.times.exact(pattern)
        is_matmul = len(pattern.nodes) == 1 and isinstance(pattern.nodes[0].attrs, DotAttrs)
        summed = _sum_us(pattern.nodes[0], self.times) if is_matmul else None
        return summed if known is None or (summed is not None and summed < known) else known
