"""Attentions, some with their gradients, that are to be operations of their own (OpKind.ATTENTION and those after it),
as the matmuls that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.graph import Node


@dataclass(frozen=True)
class Matrices:
    """Matrices [batch, heads, rows, columns]; `exchanged`: the node is [batch, heads, columns, rows]."""

    node: Node
    exchanged: bool

    @property
    def dims(self) -> tuple[int, ...]:
        """Static: [batch, heads, rows, columns]."""
        *outer, rows, columns = self.node.type.dims
        return (*outer, columns, rows) if self.exchanged else (*outer, rows, columns)


@dataclass(frozen=True)
class FusedAttention:
    """softmax(scale q k^T) v.

    Attributes:
        causal: queries see keys up to their own number.
        keys, values: they may have fewer heads, each of which as many neighbouring heads of queries share.
        result: a matmul.
    """

    scale: float
    causal: bool
    queries: Matrices
    keys: Matrices
    values: Matrices
    result: Matrices


@dataclass(frozen=True)
class FusedTraining(FusedAttention):
    """An attention and its gradients. No heads are shared.

    Attributes:
        grad: of the result.
        query_grad, key_grad, value_grad: matmuls.
    """

    grad: Matrices
    query_grad: Matrices
    key_grad: Matrices
    value_grad: Matrices
