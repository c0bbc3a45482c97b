"""What a while loop does with tensors row by row, where a counter numbers the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorflow import int32
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.attributes import NodeAttrs
from tf_stitch.frontend.tensorflow.control_flow import NEXT_ITERATIONS, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.graph.loops.loop_cells import number_in

_INT32: int = int32.as_datatype_enum
_PASS = NEXT_ITERATIONS | {"Identity"}


@dataclass(frozen=True)
class Place:
    """A row: its number is a counter's, and some more."""

    counter: LoopVariable
    more: int


@dataclass(frozen=True)
class RowWrite:
    """A node that overwrites one row of a tensor.

    Attributes:
        item: the new row.
        index: the tensor that numbers it.
    """

    node: NodeDef
    item: str
    index: str
    place: Place


class RowUses:
    """What one loop does with the rows of its variables."""

    def __init__(self, frame: LoopFrame, types_of: TypesOf) -> None:
        self.variables, self._types_of = LoopVariables(frame), types_of
        self.defs: dict[str, NodeDef] = self.variables.defs
        self._users: dict[str, list[NodeDef]] = {}
        for node in frame.nodes:
            for t in node.input:
                if not t.startswith("^"):
                    self._users.setdefault(canonical_tensor(t), []).append(node)

    def chain(self, variable: LoopVariable) -> Iterator[NodeDef]:
        """What carries a variable from one iteration to the next, and out."""
        merge = self.defs[variable.merge]
        yield from (variable.enter, merge, *variable.exits)
        yield from self._users[f"{merge.name}:0"]  # its Switch
        yield from (self.defs[producer_of(t)] for t in merge.input if self.defs[producer_of(t)].op in NEXT_ITERATIONS)
        for tensor in dict.fromkeys((variable.value, variable.back)):
            yield from (node for node in self._readers(tensor) if node.op == "Identity")

    def reads(self, variable: LoopVariable) -> list[tuple[NodeDef, Place]]:
        """The lookups of rows of a variable that is there for nothing else."""
        if not variable.is_kept or variable.exits:
            return []
        found: list[tuple[NodeDef, Place]] = []
        for node in self._uses(variable):
            place = self._place(node.input[1]) if self._is_lookup(node, variable) else None
            if place is None:
                return []
            found.append((node, place))
        return found

    def write(self, variable: LoopVariable) -> RowWrite | None:
        """What overwrites a row of a variable that is there for nothing else."""
        uses = self._uses(variable)
        if len(uses) != 1 or not self._is_overwriting(uses[0], variable) \
                or any(node.op not in _PASS for node in self._readers(variable.back)):
            return None
        index, item = self._only(self._only(uses[0].input[1])), self._only(uses[0].input[2])
        place = None if index is None else self._place(index)
        if index is None or item is None or place is None:
            return None
        return RowWrite(uses[0], item, index, place)

    def _uses(self, variable: LoopVariable) -> list[NodeDef]:
        """Nodes that read a variable, in the condition or the body, but for those that pass it on there."""
        condition = [node for node in self._users.get(f"{variable.merge}:0", ()) if node.op not in SWITCHES]
        return condition + [node for node in self._readers(variable.value) if node.op not in _PASS]

    def _readers(self, tensor: str) -> list[NodeDef]:
        """Nodes that read a tensor, those that pass it on among them, and those behind these."""
        found = list(self._users.get(tensor, ()))
        for node in found:
            if node.op == "Identity":
                found += self._users.get(f"{node.name}:0", ())
        return found

    def _is_lookup(self, node: NodeDef, variable: LoopVariable) -> bool:
        return node.op == "GatherV2" and self.variables.seen_through(node.input[0]) == variable.value \
            and self._number(node.input[2]) == 0 and NodeAttrs(node).integer("batch_dims") == 0

    def _is_overwriting(self, node: NodeDef, variable: LoopVariable) -> bool:
        return node.op == "TensorScatterUpdate" and variable.back == f"{node.name}:0" \
            and self.variables.seen_through(node.input[0]) == variable.value \
            and NodeAttrs(node).string("bad_indices_policy") in ("", "DEFAULT")

    def _only(self, tensor: str | None) -> str | None:
        """The tensor of which one is made, with an axis of one element before its others."""
        node = None if tensor is None else self.defs.get(producer_of(tensor))
        if node is None:
            return None
        packed = node.op == "Pack" and node.attr["N"].i == 1 and NodeAttrs(node).integer("axis") == 0
        expanded = node.op == "ExpandDims" and self._number(node.input[1]) == 0
        return canonical_tensor(node.input[0]) if packed or expanded else None

    def _place(self, tensor: str) -> Place | None:
        """The row that a tensor numbers, if a counter does."""
        place = self._sum(self.variables.seen_through(tensor))
        variable = None if place is None else self.variables.by_tensor.get(place[0])
        if place is None or variable is None or place[0] != variable.value:
            return None
        of = self._types_of(producer_of(variable.initial))[int(variable.initial.rpartition(":")[2])]
        back = self._sum(variable.back)
        counts = of == (_INT32, ()) and back is not None and back[0] == variable.value and back[1] != 0
        return Place(variable, place[1]) if counts else None

    def _sum(self, tensor: str) -> tuple[str, int] | None:
        """A variable's value and a constant whose sum a tensor is."""
        if tensor in self.variables.by_tensor:
            return tensor, 0
        node = self.defs.get(producer_of(tensor))
        if node is None or node.op not in ("AddV2", "Add", "Sub"):
            return None
        a, b = (self.variables.seen_through(t) for t in node.input[:2])
        if node.op != "Sub" and self._number(a) is not None:
            a, b = b, a
        more = self._number(b)
        return None if more is None else (a, -more if node.op == "Sub" else more)

    def _number(self, tensor: str) -> int | None:
        """The whole number that a tensor is, if it is a constant scalar."""
        node = self.defs.get(producer_of(tensor))
        scalar = node is not None and node.op == "Const" and not node.attr["value"].tensor.tensor_shape.dim \
            and node.attr["dtype"].type == _INT32
        return number_in(self.defs, tensor) if scalar else None
