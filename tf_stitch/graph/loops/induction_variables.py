"""Variables of a while loop that grow by a constant in each iteration: one that counts iterations numbers rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.graph.loops.loop_roles import FORWARDS, Row


class InductionVariables:
    """The induction variables of one loop.

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
        step = self._statics.get(self._variables.from_outside(b) or b)  # AutoGraph brings a range's step in
        if a != variable.value or step is None or step.size != 1 or not isinstance(step.flat[0], int):
            return 0
        return -step.flat[0] if node.op == "Sub" else step.flat[0]

    def row(self, tensor: str) -> Row | None:
        """The row that a tensor of the loop numbers, if its value is the number of the iteration."""
        variable = self._variables.by_tensor.get(tensor)
        if variable is None or self.step(variable) != 1:
            return None
        return Row(FORWARDS) if self.is_zero(variable.initial) else None

    def is_zero(self, tensor: str) -> bool:
        """Whether a tensor outside is known to be one zero."""
        value = self._statics.get(tensor)
        return value is not None and value.size == 1 and bool(value.flat[0] == 0)
