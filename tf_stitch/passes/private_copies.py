"""Values that some of their users compute again, each from copies of its own: then a kernel can hold the whole way from
what lies in memory to its results, and the values need no memory (planning/find_attention_gradients.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tf_stitch.ir.copies import Copies, with_copies
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.planning.attention_choice import attention_copies


@dataclass(frozen=True)
class PrivateCopies:
    """Makes copies.

    Attributes:
        chosen: which, of a graph; a node is a user once.
    """

    chosen: Callable[[TensorGraph], Sequence[Copies]]
    name: str = "private_copies"

    @classmethod
    def where_faster(cls, context: PassContext) -> PrivateCopies:
        """Makes the copies with which gradients of attentions become kernels that take less time."""
        return cls(partial(attention_copies, times=context.times))

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        chosen = self.chosen(graph)
        return PassResult(with_copies(graph, chosen)[0], True) if chosen else PassResult(graph, False)
