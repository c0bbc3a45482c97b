"""What an iteration of a loop does with each list of tensors that is a variable of the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.loop_shapes import grows
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables


class Use(Enum):
    """What becomes of a list in an iteration.

    READ: nothing, elements are read. TAKEN: an element is read and set to zeros (the gradient of a write). POPPED: its
    last element is read and goes. WRITTEN: an element is set. PUSHED: one is appended. SUMMED: something is added to an
    element (the gradient of a read).
    """

    READ = "read"
    TAKEN = "taken"
    POPPED = "popped"
    WRITTEN = "written"
    PUSHED = "pushed"
    SUMMED = "summed"


READS = frozenset({Use.READ, Use.TAKEN, Use.POPPED})


@dataclass(frozen=True)
class ListUse:
    """How a list variable is used.

    Attributes:
        item: the tensor that goes into the list; "" if none does.
        index: the number of the element that changes; "" if there is none, or it is the last.
        shape, rows: SUMMED: the tensors in the loop that say what shape the elements have, and how many there are.
        grows: WRITTEN: an element behind the last one makes the list longer (a tf.TensorArray of dynamic size).
    """

    use: Use
    item: str = ""
    index: str = ""
    shape: str = ""
    rows: str = ""
    grows: bool = False


class ListUses:
    """How one loop uses its lists.

    Args:
        defs: the loop's nodes by name.
        is_zero: whether a tensor is known to be all zeros.
    """

    def __init__(self, variables: LoopVariables, defs: Mapping[str, Any], is_zero: Callable[[str], bool]) -> None:
        self._variables, self._defs, self._is_zero = variables, defs, is_zero

    def of(self, variable: LoopVariable) -> ListUse:
        """
        Raises:
            UnsupportedError: the list is used in another way; the message says how.
        """
        if variable.is_kept:
            return ListUse(Use.READ)
        node = self._defs[producer_of(variable.back)]
        inputs = self._inputs(node)
        own = inputs[:1] == [variable.value]
        if node.op == "TensorListSetItem" and own:
            taken = self._is_zero(inputs[2])
            return ListUse(Use.TAKEN if taken else Use.WRITTEN, inputs[2], inputs[1], grows=grows(node))
        if node.op == "TensorListPushBack" and own:
            return ListUse(Use.PUSHED, inputs[1])
        if node.op == "TensorListPopBack" and own and variable.back.endswith(":0"):
            return ListUse(Use.POPPED)
        if node.op == "AddN" and len(inputs) == 2 and variable.value in inputs:
            return self._summed(node, next(t for t in inputs if t != variable.value))
        raise UnsupportedError(f"{node.name} ({node.op}) makes another list of its list")

    def _summed(self, add: Any, tensor: str) -> ListUse:
        node = self._defs.get(producer_of(tensor))
        if node is not None and node.op == "TensorListSetItem":
            fresh, index, item = self._inputs(node)[:3]
            reserve = self._defs.get(producer_of(fresh))
            if reserve is not None and reserve.op == "TensorListReserve":
                shape, rows = self._inputs(reserve)[:2]
                return ListUse(Use.SUMMED, item, index, shape, rows)
        raise UnsupportedError(f"{add.name} (AddN) adds lists")

    def _inputs(self, node: Any) -> list[str]:
        return [self._variables.seen_through(canonical_tensor(t)) for t in node.input if not t.startswith("^")]
