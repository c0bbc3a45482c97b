"""The variables of a lowered while loop: how each comes in, what it is in an iteration, and what the next one gets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame


@dataclass(frozen=True)
class LoopVariable:
    """One variable.

    Attributes:
        merge: name of its Merge, whose tensor the condition reads.
        enter: the node that brings its first value in.
        value: the tensor that the body reads; "" if it does not.
        back: the tensor that becomes its value in the next iteration, seen through Identity nodes.
        exits: nodes that hand its last value out.
    """

    merge: str
    enter: Any
    value: str
    back: str
    exits: tuple[Any, ...]

    @property
    def initial(self) -> str:
        """The tensor outside that it starts with."""
        return canonical_tensor(self.enter.input[0])

    @property
    def is_kept(self) -> bool:
        """No iteration changes it."""
        return self.back == self.value


class LoopVariables:
    """The variables of one loop. `defs` are all its nodes by name, in topological order; `all` its variables."""

    def __init__(self, frame: LoopFrame) -> None:
        self.defs = {node.name: node for node in frame.nodes}
        switches = {producer_of(n.input[0]): n for n in frame.of(SWITCHES)}
        exits: dict[str, list[Any]] = {}
        for node in frame.of(EXITS):
            exits.setdefault(producer_of(node.input[0]), []).append(node)
        self.all: list[LoopVariable] = []
        for merge, (enter, back) in frame.variables.items():
            switch = switches.get(merge)
            value = "" if switch is None else f"{switch.name}:1"
            ends = () if switch is None else tuple(exits.get(switch.name, ()))
            self.all.append(LoopVariable(merge, self.defs[enter], value, self.seen_through(back), ends))

    @cached_property
    def by_tensor(self) -> dict[str, LoopVariable]:
        """The variable that a tensor of the condition or of the body is the value of."""
        return {tensor: v for v in self.all for tensor in (f"{v.merge}:0", v.value) if tensor}

    def seen_through(self, tensor: str) -> str:
        """The tensor that Identity nodes of the loop pass on."""
        tensor = canonical_tensor(tensor)
        while (node := self.defs.get(producer_of(tensor))) is not None and node.op == "Identity":
            tensor = canonical_tensor(node.input[0])
        return tensor

    def from_outside(self, tensor: str) -> str | None:
        """The tensor outside of the loop that this one is in every iteration, or None."""
        tensor = self.seen_through(tensor)
        node = self.defs.get(producer_of(tensor))
        if node is not None and node.op in ENTERS:
            return canonical_tensor(node.input[0])
        variable = self.by_tensor.get(tensor)
        return variable.initial if variable is not None and variable.is_kept else None
