"""What a call that computes an attention may read in place of its operands: queries before they are scaled, keys and
values before each head of queries gets a copy. No kernel makes either then."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.causal_masks import constant_of
from tf_stitch.ir.fused_attentions import FusedAttention, Matrices
from tf_stitch.ir.graph import Node, with_operands
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.strided_view import VIEWS, path_to
from tf_stitch.libraries.attention import layout_of
from tf_stitch.planning.attention import Operand

_HEADS = 1
"""The axis of matrices."""


def with_bare_operands(fused: FusedAttention, users: Mapping[Node, Sequence[Node]], wanted: Collection[Node]
                       ) -> FusedAttention:
    """The same attention of what its operands are made of, as far as a call can read that as it lies. New nodes are
    views of the graph's.

    Args:
        users: of every node of the graph.
        wanted: live-out values of the graph.
    """
    queries, factor = _unscaled(fused.queries, users, wanted)
    keys, values = _unrepeated(fused.keys), _unrepeated(fused.values)
    if factor is not None and _is_readable(queries):
        fused = replace(fused, queries=queries, scale=fused.scale * factor)
    if keys is not None and values is not None and _is_readable(keys) and _is_readable(values):
        fused = replace(fused, keys=keys, values=values)
    return fused


def _unscaled(given: Matrices, users: Mapping[Node, Sequence[Node]], wanted: Collection[Node]
              ) -> tuple[Matrices, float | None]:
    """What matrices are a multiple of, and the factor, if nobody else reads them or their views; None: they are none
    such."""
    path, node = list[Node](), given.node
    while node.kind in VIEWS and node not in wanted and len(users[node]) == 1:
        path.append(node)
        node = node.operands[0]
    if node.kind is not OpKind.MUL or node in wanted or len(users[node]) != 1:
        return given, None
    for whole, other in (node.operands, node.operands[::-1]):
        factor = constant_of(other)
        if factor is not None and isfinite(factor) and whole.type == node.type:
            for view in reversed(path):
                whole = with_operands(view, (whole,))
            return Matrices(whole, given.exchanged), factor
    return given, None


def _unrepeated(given: Matrices) -> Matrices | None:
    """Matrices [batch, heads, rows, columns], fewer of which each are those of several heads, one after the other; None
    if none are repeated so."""
    rank = len(given.dims)
    perm, heads = tuple(range(rank)), given.node
    if isinstance(heads.attrs, TransposeAttrs):
        perm, heads = heads.attrs.perm, heads.operands[0]
    copies = heads.operands[0] if heads.kind is OpKind.RESHAPE else heads
    if copies.kind is not OpKind.BROADCAST:
        return None
    once, axis = copies.operands[0], perm[_HEADS]
    around = heads.type.dims[:axis], heads.type.dims[axis + 1:]
    shared = copies.type.dims[axis]
    if copies.type.rank != rank + 1 or once.type.dims != (*around[0], shared, 1, *around[1]) \
            or copies.type.dims != (*around[0], shared, heads.type.dims[axis] // shared, *around[1]):
        return None
    build = Builder(given.node.loc)
    return Matrices(build.transpose(build.reshape(once, (*around[0], shared, *around[1])), perm), given.exchanged)


def _is_readable(given: Matrices) -> bool:
    """Whether a call can read matrices as they lie in what they are views of."""
    path = path_to(given.node, lambda node: False)
    memory = path[0].operands[0] if path else given.node
    strides = Operand(given.node, given.exchanged).strides(path, memory)
    return strides is not None and layout_of(strides) is not None
