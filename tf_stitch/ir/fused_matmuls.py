"""What one call of a matrix library computes: a matmul, and what may follow it before the result is stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tf_stitch.ir.activations import Activation, activation_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.epilogue import WithEpilogue
from tf_stitch.ir.graph import Node, users_of, view_of
from tf_stitch.ir.matrices import MatrixLayout, contiguous, matrix_layout
from tf_stitch.ir.op_kinds import NO_MEMORY, OpKind
from tf_stitch.ir.strided_view import matrices_written


@dataclass(frozen=True)
class FusedMatmul(WithEpilogue):
    """activation(matmul + bias + addend), the sums in any order.

    Attributes:
        nodes: from the matmul to the result, operands first.
        bias: as many elements as the matmul has columns; added to every row.
        addend: of the matmul's shape, as far as memory goes.
        layout: of the matmul's matrices in the result.
    """

    nodes: tuple[Node, ...]
    layout: MatrixLayout
    bias: Node | None = None
    addend: Node | None = None
    activation: Activation = Activation.NONE

    @property
    def matmul(self) -> Node:
        return self.nodes[0]


def bare(matmul: Node) -> FusedMatmul:
    """A static matmul (DOT) alone."""
    return FusedMatmul((matmul,), contiguous(matmul.type.dims))


def fused_matmuls(matmul: Node, users: dict[Node, list[Node]], wanted: frozenset[Node], strided: bool = False
                  ) -> Iterator[FusedMatmul]:
    """What the library can compute in one call beyond a static matmul, each with all of the one before it.

    Args:
        users: of every node.
        wanted: nodes whose values are needed by themselves.
        strided: it writes matrices at two distances; else at one.
    """
    larger = _extended(bare(matmul), users, wanted, strided)
    while larger is not None:
        yield larger
        larger = _extended(larger, users, wanted, strided)


def as_fused_matmul(nodes: Sequence[Node], strided: bool = False) -> FusedMatmul | None:
    """These nodes (operands first) as one call, None if they are not.

    Args:
        nodes: with all views between them.
        strided: see fused_matmuls.
    """
    if nodes[0].kind is not OpKind.DOT:
        return None
    if len(nodes) == 1:
        return bare(nodes[0])
    members = set(nodes)
    found = fused_matmuls(nodes[0], users_of(nodes), frozenset(), strided)
    return next((f for f in found if set(f.nodes) == members), None)


def _extended(call: FusedMatmul, users: dict[Node, list[Node]], wanted: frozenset[Node], strided: bool
              ) -> FusedMatmul | None:
    if call.result in wanted or call.activation is not Activation.NONE:
        return None
    found = _with_activation(call, users, wanted)
    following = users.get(call.result, [])
    if found is not None or len(following) != 1:
        return found
    [user] = following
    if user.kind is OpKind.RESHAPE:
        return replace(call, nodes=(*call.nodes, user))
    if user.kind is OpKind.TRANSPOSE:
        return _transposed(call, user, strided)
    return _with_sum(call, user) if user.kind is OpKind.ADD else None


def _transposed(call: FusedMatmul, transpose: Node, strided: bool) -> FusedMatmul | None:
    views = call.nodes[1:]
    if any(view.kind is not OpKind.RESHAPE for view in views) or (views and not strided):
        return None
    axes = matrices_written((*views, transpose))
    layout = None if axes is None else matrix_layout(*axes, distances=2 if strided else 1)
    if layout is None or layout.transposed:
        return None
    return replace(call, nodes=(*call.nodes, transpose), layout=layout)


def _is_laid_out_anew(call: FusedMatmul) -> bool:
    return any(n.kind is OpKind.TRANSPOSE for n in call.nodes)


def _with_activation(call: FusedMatmul, users: dict[Node, list[Node]], wanted: frozenset[Node]
                     ) -> FusedMatmul | None:
    if _is_laid_out_anew(call) or not _is_one_matrix(call.matmul):
        return None
    found = activation_of(call.result, users, wanted)
    if found is None:
        return None
    activation, nodes = found
    return replace(call, nodes=(*call.nodes, *nodes), activation=activation)


def _with_sum(call: FusedMatmul, add: Node) -> FusedMatmul | None:
    value = call.result
    other = add.operands[1] if add.operands[0] is value else add.operands[0]
    if other is value or add.type != value.type or view_of(other).kind in NO_MEMORY or _is_laid_out_anew(call):
        return None
    if call.addend is None and other.type == value.type:
        return replace(call, nodes=(*call.nodes, add), addend=other)
    if call.bias is None and _is_one_matrix(call.matmul) and _is_bias(call, other):
        return replace(call, nodes=(*call.nodes, add), bias=other)
    return None


def _is_one_matrix(matmul: Node) -> bool:
    """Whether the library takes a bias and activations: of several matmuls, and in float64, it does not."""
    return matmul.type.dtype is not DType.F64 and all(d == 1 for d in matmul.type.dims[:-2])


def _is_bias(call: FusedMatmul, vector: Node) -> bool:
    shape = vector.type.dims
    while shape and shape[0] == 1:
        shape = shape[1:]
    columns = call.matmul.type.dims[-1]
    return bool(shape) and call.result.type.dims[-len(shape):] == shape and math.prod(shape) == columns
