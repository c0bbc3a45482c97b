"""Loops as one op: what the attribute of a LOOP node refers to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import LoopAttrs
from tf_stitch.ir.types import TensorType


class Unrollable(ABC):
    """A loop whose length is a size. Loops that compute the same are equal, hash alike, and have one str."""

    @abstractmethod
    def unrolled(self, types: Sequence[TensorType]) -> TensorGraph:
        """Its graph, without loops, for operands of these static types: input k has the key "i<k>", result j "o<j>".

        Raises:
            BindError: it cannot be unrolled for these sizes.
        """


def loop_of(node: Node) -> Unrollable:
    """The loop of a LOOP node."""
    assert isinstance(node.attrs, LoopAttrs)
    assert isinstance(node.attrs.loop, Unrollable)
    return node.attrs.loop
