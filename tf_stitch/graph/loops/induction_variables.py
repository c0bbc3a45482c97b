"""Variables of a while loop that grow by a constant in each iteration: one that counts iterations numbers rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.graph.loops.loop_roles import FORWARDS, Row


class InductionVariables:
    """Of one loop.

    Args:
        statics: tensors whose value is known.
    """

    def __init__(self, variables: LoopVariables, statics: Mapping[str, NDArray[Any]]) -> None:
        self._variables, self._statics = variables, statics

    def step(self, variable: LoopVariable) -> int:
        """By how much a variable grows in each iteration, 0 if it is no induction variable."""
        node = self._variables.defs.get(producer_of(variable.back))
        if node is None or node.op not in ("AddV2", "Add", "Sub"):
            return 0
        a, b = (self._variables.seen_through(t) for t in node.input[:2])
        if node.op != "Sub" and b == variable.value:
            a, b = b, a
        step = self._statics.get(b)
        if a != variable.value or step is None or step.size != 1 or not isinstance(step.flat[0], int):
            return 0
        return -step.flat[0] if node.op == "Sub" else step.flat[0]

    def row(self, tensor: str) -> Row | None:
        """The row that a tensor of the loop numbers, if its value is the number of the iteration."""
        variable = self._variables.by_tensor.get(tensor)
        if variable is None or self.step(variable) != 1:
            return None
        first = self._statics.get(variable.initial)
        return Row(FORWARDS) if first is not None and first.size == 1 and first.flat[0] == 0 else None
