"""Gives matmuls to kernels of ours (families/matmul.py; on CPUs families/matmul_in_tasks.py). Planning then puts what
is around them into these kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tf_stitch.families.matmul_tiles import leaves_idle
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.lower_gemv_to_reduction import MOST_ROWS, changes
from tf_stitch.passes.rewriter import replace_chosen
from tf_stitch.planning.attention_choice import matmuls_of_attentions
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import alone

MOST_TERMS = 4096
"""Of such a matmul: the blocks of a cluster read all terms of their columns, whatever the model says of the whole
device."""
REPEATED_IN_KERNELS = True
"""Whether kernels of ours may have matmuls of more than MOST_ROWS that a recurrent layer repeats
(see `_in_recurrent_layers`), for which a library's tiles are too large. False leaves them to the library."""
REPEATED = 4
"""Matmuls with one matrix that are taken for the steps of a recurrent layer."""
FEW_ROWS = 8
"""Up to here a CPU's library reads a matrix once, by all threads together (native/cpu/host_gemm.cc)."""


@dataclass(frozen=True)
class MatmulsToKernels:
    """Marks matmuls.

    Attributes:
        chosen: which matmuls of a graph.
    """

    chosen: Callable[[TensorGraph], Collection[Node]]
    name: str = "matmuls_to_kernels"

    @classmethod
    def where_faster(cls, context: PassContext) -> MatmulsToKernels:
        """Marks the matmuls that a kernel of ours computes faster than a library."""
        return cls(partial(matmuls_to_multiply, times=context.times))

    @classmethod
    def in_tasks(cls, context: PassContext) -> MatmulsToKernels:
        """Marks the matmuls that tasks of a CPU compute faster than a library."""
        return cls(partial(matmuls_for_tasks, times=context.times))

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return replace_chosen(graph, self.chosen(graph), in_kernel)


def in_a_loop(graph: TensorGraph) -> TensorGraph:
    """The graph of an iteration, its matmuls marked as those of a loop."""
    matmuls = [node for node in graph.nodes() if isinstance(node.attrs, DotAttrs)]
    marked = replace_chosen(graph, matmuls, _repeated).graph
    return TensorGraph(graph.name, marked.outputs, list(graph.unread)) if matmuls else graph


def _repeated(matmul: Node) -> Node:
    assert isinstance(matmul.attrs, DotAttrs)
    return make_node(matmul.kind, matmul.operands, replace(matmul.attrs, repeated=True), matmul.loc)


def in_kernel(matmul: Node) -> Node:
    """The same matmul, given to a kernel."""
    assert isinstance(matmul.attrs, DotAttrs)
    return make_node(matmul.kind, matmul.operands, replace(matmul.attrs, in_kernel=True), matmul.loc)


def matmuls_to_multiply(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """Matmuls of few rows that a kernel of ours surely multiplies in less time than a library, and those of more rows
    or few results that a recurrent layer repeats. Matmuls of an attention that becomes a kernel stay."""
    few = [node for node in graph.nodes() if _is_short(node)
           and leaves_idle(math.prod(node.type.dims[:-2]), *node.type.dims[-2:])]
    repeated = _in_recurrent_layers(few) if REPEATED_IN_KERNELS else set()
    few = [node for node in few if node in repeated or node.type.dims[-2] <= MOST_ROWS]
    found = {node for node in few if _multiplies_faster(node, times, _part(node, times))}
    return found and found - matmuls_of_attentions(graph, times)


def matmuls_for_tasks(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """Matmuls of more than a few rows that tasks of a CPU surely multiply in less time than a library."""
    return {node for node in graph.nodes() if _is_large(node) and node.type.dims[-2] > FEW_ROWS
            and _multiplies_faster(node, times, times.profile.choices.task_part)}


def _is_short(node: Node) -> bool:
    """Whether a kernel of ours could have a matmul, for its terms."""
    return _is_large(node) and node.type.dims[-2] > 0 and terms_of(node) <= MOST_TERMS


def _is_large(node: Node) -> bool:
    """A matmul of known sizes that is not inlined."""
    return is_large_matmul(node) and node.type.is_static and all(o.type.is_static for o in node.operands) \
        and not changes(node)


def _in_recurrent_layers(matmuls: Sequence[Node]) -> set[Node]:
    """Those of a loop's iteration, and those that multiply one matrix with several others: steps of a recurrent layer
    that wait for each other, since those of the rows of one tensor have become one (passes/batch_row_matmuls.py).
    Their kernel is compiled once, and what it saves is saved in each step."""
    groups: dict[tuple[object, ...], list[Node]] = {}
    in_loops = {node for node in matmuls if isinstance(node.attrs, DotAttrs) and node.attrs.repeated}
    for node in matmuls:
        groups.setdefault((node.operands[1], node.attrs, node.type.dims), []).append(node)
    return {node for group in groups.values() if len(group) >= REPEATED for node in group} | in_loops


def _part(matmul: Node, times: PatternTimes) -> float:
    """What a GPU's kernel may be predicted to take of a library's time."""
    choices = times.profile.choices
    return choices.few_rows_part if matmul.type.dims[-2] <= MOST_ROWS else choices.repeated_part


def _multiplies_faster(matmul: Node, times: PatternTimes, part: float) -> bool:
    """Whether a kernel of ours is predicted to take less than this part of a library's time."""
    called, ours = times.exact(alone(matmul)), times.exact(alone(in_kernel(matmul)))
    return called is not None and ours is not None and ours < part * called
