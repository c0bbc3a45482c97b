"""Matmuls whose rows do not begin at multiples of 16 bytes, on zeros added to them: tensor cores are fed by wide copies
that begin there, and a library's kernels without these take several times as long. A vocabulary of 50,257 words or 197
patches of an image make such rows. What computes an operand writes the zeros; what reads the result leaves them out.
Source: PyTorch's Inductor pads such operands (pad_mm.py), XLA does for cuBLAS (cublas_pad_for_gemms.cc)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, collect, users_of
from tf_stitch.ir.matrices import ROW_BYTES, row_bytes, terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import CALLED, OpKind
from tf_stitch.ir.strided_view import VIEWS
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.rewriter import replace_chosen
from tf_stitch.planning.attention_choice import matmuls_of_attentions
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.pattern import Pattern, alone

_Made: TypeAlias = dict[tuple[Node, tuple[int, ...]], Node]
"""Matrices, and rows and columns added to them."""


@dataclass(frozen=True)
class PadMatmuls:
    """Pads matmuls.

    Attributes:
        chosen: which matmuls of a graph, of those that `padded` takes.
    """

    chosen: Callable[[TensorGraph], Collection[Node]]
    name: str = "pad_matmuls"

    @classmethod
    def where_faster(cls, context: PassContext) -> PadMatmuls:
        """Pads the matmuls that a library computes faster so."""
        return cls(partial(matmuls_to_pad, times=context.times))

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        made: _Made = {}
        return replace_chosen(graph, self.chosen(graph), lambda matmul: padded(matmul, made))


def padded(matmul: Node, made: _Made | None = None) -> Node:
    """The value of a static matmul that is not aligned, from one that is.

    Args:
        made: matrices with zeros so far: one serves all matmuls that read it.
    """
    made = {} if made is None else made
    assert isinstance(matmul.attrs, DotAttrs)
    (rows, terms, columns), (a, b) = _added(matmul), matmul.operands
    transposed = matmul.attrs.transpose_a, matmul.attrs.transpose_b
    a = _with_zeros(a, (terms, rows) if transposed[0] else (rows, terms), made)
    b = _with_zeros(b, (columns, terms) if transposed[1] else (terms, columns), made)
    builder = Builder(matmul.loc)
    dot, dims = builder.dot(a, b, *transposed), matmul.type.dims
    return dot if dot.type.dims == dims else builder.slice(dot, [0] * len(dims), [1] * len(dims), dims)


def _added(matmul: Node) -> tuple[int, int, int]:
    """Rows, terms and columns to add."""
    assert isinstance(matmul.attrs, DotAttrs)
    m, n = matmul.type.dims[-2:]
    k = terms_of(matmul)
    unit = ROW_BYTES // matmul.type.dtype.size
    rows = -m % unit if matmul.attrs.transpose_a else 0
    terms = 0 if matmul.attrs.transpose_a and not matmul.attrs.transpose_b else -k % unit
    columns = -n % unit
    return rows, terms, columns


def _with_zeros(x: Node, added: tuple[int, int], made: _Made) -> Node:
    """A matrix with rows and columns added."""
    if added == (0, 0):
        return x
    if (x, added) not in made:
        builder, outer = Builder(x.loc), [0] * (x.type.rank - 2)
        zero = builder.constant(0, x.type.dtype)
        made[x, added] = builder.pad(x, zero, [0] * x.type.rank, [*outer, *added])
    return made[x, added]


_IN_MEMORY = (OpKind.INPUT, OpKind.VARIABLE)


def matmuls_to_pad(graph: TensorGraph, times: PatternTimes) -> set[Node]:
    """Matmuls that the library runs faster when zero-padded, even if operands have to be copied for it. Matmuls
    of attentions that become kernels stay as they are."""
    nodes = graph.nodes()
    found = {node for node in nodes if _is_candidate(node)}
    if not found:
        return found
    found -= matmuls_of_attentions(graph, times)
    users, wanted = users_of(nodes), set(live_out(graph))
    return {node for node in found if _gains(node, users, wanted, times)}


def _is_candidate(node: Node) -> bool:
    return (isinstance(node.attrs, DotAttrs) and node.type.is_static and bool(node.type.numel)
            and all(o.type.is_static for o in node.operands) and is_large_matmul(node)
            and row_bytes(node) < ROW_BYTES)


def _gains(matmul: Node, users: Mapping[Node, Sequence[Node]], wanted: Collection[Node], times: PatternTimes) -> bool:
    result = padded(matmul)
    dot = result if result.kind is OpKind.DOT else result.operands[0]
    before, after = times.exact(alone(matmul)), times.exact(alone(dot))
    copied = [new for old, new in zip(matmul.operands, dot.operands, strict=True)
              if new is not old and _lies_in_memory(old)]
    cut = result is not dot
    if cut and (matmul in wanted or any(user.category in CALLED or user.kind in VIEWS for user in users[matmul])):
        copied.append(result)
    return before is not None and after is not None and after + sum(_copy_us(x, times) for x in copied) < before


def _lies_in_memory(operand: Node) -> bool:
    """Whether a kernel that adds zeros to it is one more kernel, since it is no result of another that could."""
    while operand.kind in VIEWS:
        operand = operand.operands[0]
    return operand.kind in _IN_MEMORY or operand.category in CALLED


def _copy_us(made: Node, times: PatternTimes) -> float:
    """Microseconds of a kernel that moves a value."""
    nodes: dict[Node, None] = {}
    collect(made, {made.operands[0]}, nodes)
    found = times.exact(Pattern(tuple(nodes), (made,), frozenset()))
    return float("inf") if found is None else found
