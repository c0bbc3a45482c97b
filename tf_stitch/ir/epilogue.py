"""What the calls of libraries have alike that compute a convolution or a matmul and what follows it."""

from __future__ import annotations

from tf_stitch.ir.graph import Node


class WithEpilogue:
    """Attributes:
        nodes: from the convolution or matmul to the result, operands first.
        bias, addend: what is added, if anything.
    """

    nodes: tuple[Node, ...]
    bias: Node | None
    addend: Node | None

    @property
    def result(self) -> Node:
        return self.nodes[-1]

    @property
    def added(self) -> tuple[Node, ...]:
        """Operands beside those of the convolution or matmul."""
        return tuple(x for x in (self.bias, self.addend) if x is not None)
