"""Tensors that a loop reads, or overwrites, row by row become lists of their rows: an op in the loop's place finds the
row of a counter by its address, and writes it where it is. TensorFlow looks rows up, and copies the tensor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tensorflow import int32, make_tensor_proto
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.attributes import NodeAttrs
from tf_stitch.frontend.tensorflow.control_flow import NEXT_ITERATIONS, SWITCHES
from tf_stitch.frontend.tensorflow.dtypes import DT_VARIANT
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of, topological
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame, loop_frames
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.integration.graph_item import OutputType
from tf_stitch.integration.loop_cells import constant, number_in

_INT32: int = int32.as_datatype_enum
_LIST: OutputType = (DT_VARIANT, ())
_PASS = NEXT_ITERATIONS | {"Identity"}


@dataclass(frozen=True)
class RowLists:
    """A graph with such lists; `loops` have them, by their frames' names."""

    graph_def: GraphDef
    types_of: TypesOf
    loops: frozenset[str]


@dataclass(frozen=True)
class _Place:
    """A row: its number is a counter's, and some more."""

    counter: LoopVariable
    more: int


def list_rows(graph_def: GraphDef, types_of: TypesOf, but: Collection[str] = ()) -> RowLists:
    """The graph with lists in its loops, but for those of these names."""
    after = GraphDef()
    after.CopyFrom(graph_def)
    lists, changed = _Lists(types_of), set[str]()
    for name, frame in loop_frames(list(topological({node.name: node for node in after.node}))).items():
        if name not in but and isinstance(frame, LoopFrame) and lists.make(frame):
            changed.add(name)
    if not changed:
        return RowLists(graph_def, types_of, frozenset())
    for node in after.node:
        node.input[:] = [lists.stacked.get(canonical_tensor(t), t) for t in node.input]
    after.node.extend(lists.new)
    return RowLists(after, lists.types, frozenset(changed))


class _Lists:
    """Changes nodes of loops in place. `new` are nodes to add, `stacked` the tensors of lists that leave a loop."""

    def __init__(self, types_of: TypesOf) -> None:
        self._types_of = types_of
        self._new_types: dict[str, list[OutputType]] = {}
        self.new: list[NodeDef] = []
        self.stacked: dict[str, str] = {}

    def types(self, name: str) -> list[OutputType]:
        return self._new_types.get(name) or self._types_of(name)

    def make(self, frame: LoopFrame) -> bool:
        """Makes lists of what a loop uses row by row; whether there is such a thing."""
        loop, found = _Rows(frame, self.types), False
        counters: dict[tuple[str, int], str] = {}
        for variable in LoopVariables(frame).all:
            reads, write = loop.reads(variable), loop.write(variable)
            if write is None and not reads:
                continue
            dtype = self.types(variable.enter.name)[0][0]
            for node, place in reads:
                self._read(node, self._number(loop, place, counters, node.input[1]), loop.defs)
            if write is not None:
                node, item, place, index = write
                self._write(node, self._number(loop, place, counters, index), item)
            self._carry(loop, variable, dtype)
            found = True
        return found

    def _read(self, gather: NodeDef, number: str, defs: dict[str, NodeDef]) -> None:
        dtype, axis = gather.attr["Tparams"].type, defs[producer_of(gather.input[2])]
        shape = NodeDef()
        shape.CopyFrom(axis)
        shape.name = f"{gather.name}/tfs_shape"
        shape.attr["value"].tensor.CopyFrom(make_tensor_proto(-1, int32))
        shape.attr["dtype"].type = _INT32
        self._add(shape, [(_INT32, ())])
        gather.op = "TensorListGetItem"
        gather.input[:] = [gather.input[0], number, shape.name]
        gather.attr.clear()
        gather.attr["element_dtype"].type = dtype

    def _write(self, update: NodeDef, number: str, item: str) -> None:
        dtype = update.attr["T"].type
        update.op = "TensorListSetItem"
        update.input[:] = [update.input[0], number, item]
        update.attr.clear()
        update.attr["element_dtype"].type = dtype
        self._new_types[update.name] = [_LIST]

    def _carry(self, loop: _Rows, variable: LoopVariable, dtype: int) -> None:
        """Has the loop carry a list, which is made before it, and stacked behind it."""
        enter, whole = variable.enter, variable.initial
        whole_type = (dtype, self.types(producer_of(whole))[int(whole.rpartition(":")[2])][1])
        shape = constant(f"{enter.name}/tfs_shape", -1, enter)
        self._add(shape, [(_INT32, ())])
        rows = NodeDef(name=f"{enter.name}/tfs_rows", op="TensorListFromTensor", device=enter.device,
                       input=[whole, shape.name])
        rows.attr["element_dtype"].type, rows.attr["shape_type"].type = dtype, _INT32
        self._add(rows, [_LIST])
        enter.input[0] = rows.name
        for node in loop.chain(variable):
            node.attr["T"].type = DT_VARIANT
            second: dict[str, OutputType] = {"Merge": (_INT32, ()), "Switch": _LIST}
            self._new_types[node.name] = [_LIST, second[node.op]] if node.op in second else [_LIST]
        for exit_ in variable.exits:
            stack = NodeDef(name=f"{exit_.name}/tfs_stack", op="TensorListStack", device=exit_.device,
                            input=[f"{exit_.name}:0", shape.name])
            stack.attr["element_dtype"].type, stack.attr["num_elements"].i = dtype, -1
            self._add(stack, [whole_type])
            self.stacked[f"{exit_.name}:0"] = f"{stack.name}:0"

    def _number(self, loop: _Rows, place: _Place, counters: dict[tuple[str, int], str], tensor: str) -> str:
        """The tensor that numbers a row: a counter, which gets one beside it that is always so much ahead."""
        if not place.more:
            return tensor
        key = (place.counter.merge, place.more)
        if key not in counters:
            counters[key] = self._ahead(loop, place)
        return counters[key]

    def _ahead(self, loop: _Rows, place: _Place) -> str:
        counter, name = place.counter, f"{place.counter.merge}/tfs_ahead_{place.more}"
        merge, step = loop.defs[counter.merge], loop.defs[producer_of(counter.back)]
        switch = loop.defs[producer_of(counter.value)]
        back = next(loop.defs[producer_of(t)] for t in merge.input if loop.defs[producer_of(t)].op in NEXT_ITERATIONS)
        more = constant(f"{name}/more", place.more, counter.enter)
        self._add(more, [(_INT32, ())])
        start = NodeDef(name=f"{name}/start", op="AddV2", device=counter.enter.device,
                        input=[counter.initial, more.name])
        start.attr["T"].type = _INT32
        self._add(start, [(_INT32, ())])
        value = f"{name}/{switch.op}:1"
        inputs = {
            counter.enter.name: [start.name, *(t for t in counter.enter.input if t.startswith("^"))],
            merge.name: [f"{name}/{counter.enter.op}", f"{name}/{back.op}"],
            switch.name: [f"{name}/{merge.op}", switch.input[1]],
            step.name: [value if loop.variables.seen_through(t) == counter.value else t for t in step.input],
            back.name: [f"{name}/{step.op}"],
        }
        for node in (counter.enter, merge, switch, step, back):
            copy = NodeDef()
            copy.CopyFrom(node)
            copy.name, copy.input[:] = f"{name}/{node.op}", inputs[node.name]
            self._add(copy, self.types(node.name))
        return value

    def _add(self, node: NodeDef, types: Sequence[OutputType]) -> None:
        self.new.append(node)
        self._new_types[node.name] = list(types)


class _Rows:
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

    def reads(self, variable: LoopVariable) -> list[tuple[NodeDef, _Place]]:
        """The lookups of rows of a variable that is there for nothing else."""
        if not variable.is_kept or variable.exits:
            return []
        found: list[tuple[NodeDef, _Place]] = []
        for node in self._uses(variable):
            place = self._place(node.input[1]) if self._is_lookup(node, variable) else None
            if place is None:
                return []
            found.append((node, place))
        return found

    def write(self, variable: LoopVariable) -> tuple[NodeDef, str, _Place, str] | None:
        """What overwrites a row of a variable that is there for nothing else: the node, the new row, and its number."""
        uses = self._uses(variable)
        if len(uses) != 1 or variable.back != f"{uses[0].name}:0" or uses[0].op != "TensorScatterUpdate" \
                or self.variables.seen_through(uses[0].input[0]) != variable.value \
                or any(node.op not in _PASS for node in self._readers(variable.back)):
            return None
        index, item = self._only(self._only(uses[0].input[1])), self._only(uses[0].input[2])
        place = None if index is None else self._place(index)
        return None if index is None or item is None or place is None else (uses[0], item, place, index)

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

    def _only(self, tensor: str | None) -> str | None:
        """The tensor of which one is made, with an axis of one element before its others."""
        node = None if tensor is None else self.defs.get(producer_of(tensor))
        if node is None:
            return None
        packed = node.op == "Pack" and node.attr["N"].i == 1 and NodeAttrs(node).integer("axis") == 0
        expanded = node.op == "ExpandDims" and self._number(node.input[1]) == 0
        return canonical_tensor(node.input[0]) if packed or expanded else None

    def _place(self, tensor: str) -> _Place | None:
        """The row that a tensor numbers, if a counter does."""
        place = self._sum(self.variables.seen_through(tensor))
        variable = None if place is None else self.variables.by_tensor.get(place[0])
        if place is None or variable is None or place[0] != variable.value:
            return None
        of = self._types_of(producer_of(variable.initial))[int(variable.initial.rpartition(":")[2])]
        back = self._sum(variable.back)
        counts = of == (_INT32, ()) and back is not None and back[0] == variable.value and back[1] != 0
        return _Place(variable, place[1]) if counts else None

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
