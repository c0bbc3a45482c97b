"""Which matmuls of a matrix and one vector, or a few, become sums (transforms/lower_gemv_to_reduction.py), and which a
kernel of ours multiplies by tensor cores (transforms/matmuls_to_kernels.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.families.matmul_tiles import leaves_idle
from tf_stitch.ir.graph import Node, TensorGraph, collect
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.planning.attention_choice import matmuls_of_attentions
from tf_stitch.planning.matmul_sizes import SMALL_MATMUL, is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import Pattern, alone
from tf_stitch.transforms.lower_gemv_to_reduction import MOST_ROWS, as_sum, changes
from tf_stitch.transforms.matmuls_to_kernels import in_kernel

MOST_TERMS = 4096
"""Of such a matmul: the blocks of a cluster read all terms of their columns, whatever the model says of the whole
device."""
REPEATED_IN_KERNELS = True
"""Whether kernels of ours may have matmuls that a recurrent layer repeats (see `_repeated`) of more than MOST_ROWS, for
which a library's tiles are too large. False leaves them to the library, as before 2026-11-27."""
REPEATED = 4
"""Matmuls with one matrix that are taken for the steps of a recurrent layer."""
SURELY, SURELY_REPEATED = 0.97, 0.85
"""Of a library's measured time, what a kernel of ours may be predicted to take. For [16,768] x [768,50257] in TF32 it
was 41 us, and 46 of the library: in CUDA graphs on an H200 both took 61; in bfloat16 22 and 23 became 41 and 102. The
second is for those of a recurrent layer that have more than MOST_ROWS, of which none was timed by itself."""


def matmuls_to_sum(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """Those matmuls of a graph whose sum takes a kernel less time than the matmul takes a library.

    Planning can inline matmuls of few terms, or of one column, by itself. Matmuls of an attention stay where one
    kernel beats their sums and the softmax between them.
    """
    found = {node for node in graph.nodes() if _is_candidate(node) and _is_faster(node, times)}
    return found and found - matmuls_of_attentions(graph, TimesWithSums(times))


def matmuls_to_multiply(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """Those matmuls of few rows that a kernel of ours multiplies in surely less time than a library, and of more rows
    or few results those that a recurrent layer repeats. Matmuls of an attention that becomes a kernel stay."""
    few = [node for node in graph.nodes() if _is_short(node)
           and leaves_idle(math.prod(node.type.dims[:-2]), *node.type.dims[-2:])]
    repeated = _repeated(few) if REPEATED_IN_KERNELS else set()
    few = [node for node in few if node in repeated or node.type.dims[-2] <= MOST_ROWS]
    found = {node for node in few if _multiplies_faster(node, times)}
    return found and found - matmuls_of_attentions(graph, times)


def _is_short(node: Node) -> bool:
    """Whether a kernel of ours could have a matmul, for its terms."""
    return is_large_matmul(node) and node.type.is_static and all(o.type.is_static for o in node.operands) \
        and node.type.dims[-2] > 0 and not changes(node) and terms_of(node) <= MOST_TERMS


def _repeated(matmuls: Sequence[Node]) -> set[Node]:
    """Those of a loop's iteration, and those that multiply one matrix with several others: steps of a recurrent layer
    that wait for each other, since those of the rows of one tensor have become one (transforms/batch_row_matmuls.py).
    Their kernel is compiled once, and what it saves is saved in each step."""
    groups: dict[tuple[object, ...], list[Node]] = {}
    in_loops = {node for node in matmuls if isinstance(node.attrs, DotAttrs) and node.attrs.repeated}
    for node in matmuls:
        groups.setdefault((node.operands[1], node.attrs, node.type.dims), []).append(node)
    return {node for group in groups.values() if len(group) >= REPEATED for node in group} | in_loops


def _multiplies_faster(matmul: Node, times: PatternTimes) -> bool:
    called, ours = times.exact(alone(matmul)), times.exact(alone(in_kernel(matmul)))
    surely = SURELY if matmul.type.dims[-2] <= MOST_ROWS else SURELY_REPEATED
    return called is not None and ours is not None and ours < surely * called


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
        """Of a launch, without sums or with them."""
        return self.times.least_us

    def estimate(self, pattern: Pattern) -> float | None:
        """Without sums."""
        return self.times.estimate(pattern)

    def exact(self, pattern: Pattern) -> float | None:
        """Microseconds; None if it cannot be one kernel, call or sum."""
        known = self.times.exact(pattern)
        is_matmul = len(pattern.nodes) == 1 and isinstance(pattern.nodes[0].attrs, DotAttrs)
        summed = _sum_us(pattern.nodes[0], self.times) if is_matmul else None
        return summed if known is None or (summed is not None and summed < known) else known
