"""Cuts one while loop out of a graph for StitchWhile: its body and its condition become regions, its lists tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, MERGES, SWITCHES
from tf_stitch.frontend.tensorflow.dtypes import DT_VARIANT, of_enum
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC, TypesOf
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame
from tf_stitch.frontend.tensorflow.loop_list_uses import READS, ListUses, Use
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.integration.graph_item import OutputType, as_tensorflow
from tf_stitch.integration.loop_original import LoopNodes
from tf_stitch.integration.loop_roles import (
    BACKWARDS,
    FORWARDS,
    Carried,
    Element,
    Fixed,
    InputRole,
    Last,
    LoopRoles,
    OutputRole,
    Row,
    Stack,
    row_numbered_by,
)
from tf_stitch.integration.region_graph import RegionGraph, cut_region, output_key
from tf_stitch.integration.while_node import NativeLoop
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import OpKind

_BEGIN = {Use.PUSHED: ("EmptyTensorList",), Use.WRITTEN: ("TensorListReserve",),
          Use.SUMMED: ("ZerosLike", "TensorListReserve")}
"""What lists that a loop fills are at first: without elements, or zeros."""

_TAKES = frozenset({"TensorListGetItem", "TensorListPopBack"})


@dataclass(frozen=True)
class StackedList:
    """A list of tensors outside of loops that is there as one tensor, whose rows are the elements.

    Attributes:
        distinct: the elements are whole numbers, no two alike.
    """

    tensor: str
    distinct: bool = False


@dataclass(frozen=True)
class ListResult:
    """A list that a loop hands out, as the rows of a tensor.

    Attributes:
        element_shape: the tensor that said what shape elements have.
        distinct: see StackedList.
    """

    element_shape: str
    distinct: bool


class LoopCut:
    """One loop. After `loop`: `lists` are those that it hands out, by the Exit's name; `kept` says what Exits of
    variables are that no iteration changes; `new` are nodes that the loop needs outside.

    Args:
        defs: the graph's nodes by name.
        users: node -> nodes that use it.
        lists: those that come from loops which have been cut out before, by their tensors.
    """

    def __init__(self, frame: LoopFrame, imported: ImportedGraph, types_of: TypesOf, defs: Mapping[str, NodeDef],
                 users: Mapping[str, Sequence[NodeDef]], lists: Mapping[str, StackedList]) -> None:
        self._frame, self._imported, self._types_of = frame, imported, types_of
        self._outer, self._users, self._known_lists = defs, users, lists
        self._defs = {node.name: node for node in frame.nodes}
        self._variables = LoopVariables(frame)
        self._list_uses = ListUses(self._variables, self._defs, self._is_zero)
        self._inputs: dict[str, int] = {}
        self._input_types: list[OutputType] = []
        self._wanted: dict[str, None] = {}
        self.lists: dict[str, ListResult] = {}
        self.kept: dict[str, str] = {}
        self.new: dict[str, NodeDef] = {}
        self._new_types: dict[str, list[OutputType]] = {}

    def types(self, name: str) -> list[OutputType]:
        """Types of a node's outputs, those of `new` too."""
        return self._new_types.get(name) or self._types_of(name)

    def loop(self, name: str) -> NativeLoop:
        """The loop for a node of this name.

        Raises:
            StitchError: it cannot run as one op; the message says why.
        """
        condition_tensor = canonical_tensor(self._frame.condition.input[0])
        read = [(v, e) for v in self._variables.all for e in v.exits if self._is_read(e)]
        self.kept = {f"{exit_.name}:0": v.initial for v, exit_ in read if v.is_kept}
        ends = [(v, exit_) for v, exit_ in read if not v.is_kept]
        if not ends:
            raise UnsupportedError("nobody reads what it gives")
        for variable, _ in ends:
            self._want_at_the_end(variable)
        condition_members, starts = self._behind([condition_tensor])
        self._want_before(starts)
        members = self._members()
        for part, nodes in (("body", members), ("condition", condition_members)):
            if not nodes:
                raise UnsupportedError(f"its {part} computes nothing")
        body = cut_region(self._imported, members, list(self._wanted))
        condition = cut_region(self._imported, condition_members, [condition_tensor])
        roles = LoopRoles(tuple(self._input_role(t, body) for t in body.inputs),
                          tuple(self._input_role(t, body) for t in condition.inputs),
                          tuple(self._output_role(v, exit_.name, body) for v, exit_ in ends))
        _check_carried(roles, body)
        _check_rows(roles)
        types = tuple(self._result_type(v, exit_) for v, exit_ in ends)
        own = LoopNodes(self._frame, [exit_.name for _, exit_ in ends])
        for enter in own.enters:
            self._bring_in(enter, own)
        results = tuple(own.stack(exit_.name, dtype, dims[1:]) if exit_.name in self.lists else f"{exit_.name}:0"
                        for (_, exit_), (dtype, dims) in zip(ends, types, strict=True))
        controls = dict.fromkeys(t for node in self._frame.of(ENTERS) for t in node.input if t.startswith("^"))
        return NativeLoop(name, self._frame.name, self._frame.condition.device, body, condition, roles,
                          tuple(self._inputs), tuple(self._input_types), tuple(exit_.name for _, exit_ in ends), types,
                          tuple(controls), {n.name: n.op for n in self._frame.nodes}, own.graph.SerializeToString(),
                          results)

    # What is needed of the body.

    def _is_read(self, node: NodeDef) -> bool:
        return any(not t.startswith("^") and producer_of(t) == node.name
                   for user in self._users.get(node.name, ()) for t in user.input)

    def _is_list(self, variable: LoopVariable) -> bool:
        return self._types_of(variable.enter.name)[0][0] == DT_VARIANT

    def _want_at_the_end(self, variable: LoopVariable) -> None:
        """Has the body give what the last value of a variable is made of."""
        if not self._is_list(variable):
            self._wanted[variable.back] = None
            return
        use = self._list_uses.of(variable)
        if use.use in READS:
            raise UnsupportedError(f"a list of which elements were {use.use.value} leaves it")
        self._wanted[use.item] = None
        self._want_number(use.index)

    def _want_number(self, index: str) -> None:
        """Has the body hand on the number of an element, so that it is an input, unless it is the iteration's."""
        if index and self._row(index) is None:
            self._wanted[index] = None

    def _want_before(self, starts: Iterable[str]) -> None:
        """Has the body give what an iteration starts from."""
        for tensor in starts:
            node, variable = self._defs[producer_of(tensor)], self._variables.by_tensor.get(tensor)
            if node.op in _TAKES:
                self._want_number(self._index(node))
            elif variable is not None and not variable.is_kept:
                self._wanted[variable.back] = None

    def _members(self) -> list[str]:
        """Nodes of the body that give what is wanted, and what they need from the iteration before."""
        while True:
            before = len(self._wanted)
            members, starts = self._behind(list(self._wanted))
            self._want_before(starts)
            if len(self._wanted) == before:
                return members

    def _behind(self, tensors: Sequence[str]) -> tuple[list[str], list[str]]:
        """Nodes that compute tensors within an iteration, in topological order, and the tensors they start from.

        Raises:
            UnsupportedError: one of them cannot be in a region.
        """
        members: set[str] = set()
        starts: dict[str, None] = {}
        pending = [canonical_tensor(t) for t in tensors]
        while pending:
            tensor = pending.pop()
            node = self._defs[producer_of(tensor)]
            if node.op in MERGES | SWITCHES | ENTERS | _TAKES:
                starts[tensor] = None
                continue
            reason = self._imported.nodes[node.name].reason
            if node.name in members or node.op == "Const" or reason is SHAPE_ARITHMETIC:
                continue
            if reason is not None:
                raise UnsupportedError(f"{node.name}: {reason}")
            members.add(node.name)
            pending += [canonical_tensor(t) for t in node.input if not t.startswith("^")]
        return [node.name for node in self._frame.nodes if node.name in members], list(starts)

    # Roles.

    def _op_input(self, tensor: str) -> int:
        if tensor not in self._inputs:
            self._inputs[tensor] = len(self._inputs)
            self._input_types.append(self._type(tensor))
        return self._inputs[tensor]

    def _input_role(self, tensor: str, body: RegionGraph) -> InputRole:
        variable, node = self._variables.by_tensor.get(tensor), self._defs.get(producer_of(tensor))
        if node is None:
            raise UnsupportedError(f"{tensor} is not brought into it")
        if variable is not None and not variable.is_kept:
            return Carried(self._op_input(variable.initial), body.outputs[variable.back])
        outside = self._variables.from_outside(tensor)
        if outside is not None:
            return Fixed(self._op_input(outside))
        if node.op in _TAKES:
            return self._element(node, body)
        if node.op == "Const":
            return Fixed(self._op_input(self._outside(node)))
        raise UnsupportedError(f"{node.name}: {self._imported.nodes[node.name].reason or 'its value is needed'}")

    def _element(self, node: NodeDef, body: RegionGraph) -> Element:
        variable = self._variables.by_tensor.get(self._variables.seen_through(node.input[0]))
        if variable is None:
            raise UnsupportedError(f"{node.name} reads a list that is no variable of the loop")
        use = self._list_uses.of(variable)
        if use.use not in READS:
            raise UnsupportedError(f"{node.name} reads a list that the loop makes")
        source, index = self._op_input(self._source(variable).tensor), self._index(node)
        if use.use is Use.TAKEN and (index != use.index or not self._is_distinct(index)):
            raise UnsupportedError(f"{node.name} may read what the loop has set to zeros")
        return Element(source, self._row(index) or self._numbered(index, body) if index else Row(BACKWARDS))

    def _index(self, node: NodeDef) -> str:
        """The number of the element that a node takes out of a list, "" for the last."""
        return "" if node.op == "TensorListPopBack" else self._variables.seen_through(node.input[1])

    def _row(self, index: str) -> Row | None:
        """The row of an element whose number is that of the iteration."""
        variable = self._variables.by_tensor.get(index)
        if variable is None or self._step(variable) != 1:
            return None
        first = self._imported.statics.get(variable.initial)
        return Row(FORWARDS) if first is not None and first.size == 1 and first.flat[0] == 0 else None

    def _numbered(self, index: str, body: RegionGraph) -> Row:
        """The row by an input of the body that has its number."""
        value = self._imported.value(index)
        tensor = None if value is None else self._imported.owner.get(value)
        if tensor not in body.inputs:
            raise UnsupportedError(f"{index} is computed, and numbers an element of a list")
        return row_numbered_by(body.inputs.index(tensor))

    def _step(self, variable: LoopVariable) -> int:
        """By how much a counter grows in each iteration, 0 if it is none."""
        node = self._defs.get(producer_of(variable.back))
        if node is None or node.op not in ("AddV2", "Add", "Sub"):
            return 0
        a, b = (self._variables.seen_through(t) for t in node.input[:2])
        if node.op != "Sub" and b == variable.value:
            a, b = b, a
        step = self._imported.statics.get(b)
        if a != variable.value or step is None or step.size != 1 or not isinstance(step.flat[0], int):
            return 0
        return -step.flat[0] if node.op == "Sub" else step.flat[0]

    def _is_distinct(self, index: str) -> bool:
        """Whether it is another number in each iteration."""
        variable, node = self._variables.by_tensor.get(index), self._defs[producer_of(index)]
        if variable is not None:
            return self._step(variable) != 0
        if node.op != "TensorListPopBack":
            return False
        popped = self._variables.by_tensor.get(self._variables.seen_through(node.input[0]))
        return popped is not None and self._source(popped).distinct

    def _output_role(self, variable: LoopVariable, exit_: str, body: RegionGraph) -> OutputRole:
        if not self._is_list(variable):
            return Last(self._op_input(variable.initial), body.outputs[variable.back])
        use, node = self._list_uses.of(variable), self._outer[producer_of(variable.initial)]
        if node.op not in _BEGIN[use.use]:
            raise UnsupportedError(f"a list of {node.name} ({node.op}) is {use.use.value} to")
        if use.use is Use.SUMMED and not self._is_distinct(use.index):
            raise UnsupportedError("it may add to an element of a list twice")
        shape = self._variables.from_outside(use.shape) if use.use is Use.SUMMED else canonical_tensor(node.input[0])
        if shape is None:
            raise UnsupportedError("the shape of a list's elements is computed")
        self.lists[exit_] = ListResult(shape, self._is_distinct(use.item))
        if use.use is Use.PUSHED:
            return Stack(body.outputs[use.item], None, Row(FORWARDS))
        row = self._row(use.index) or self._numbered(use.index, body)
        return Stack(body.outputs[use.item], self._op_input(self._rows(variable)), row)

    # Lists.

    def _source(self, variable: LoopVariable) -> StackedList:
        """The tensor whose rows are the elements of a list that comes in."""
        known = self._known_lists.get(variable.initial)
        if known is not None:
            return known
        node = self._outer[producer_of(variable.initial)]
        if node.op == "TensorListFromTensor":
            return StackedList(canonical_tensor(node.input[0]))
        like = self._known_lists.get(canonical_tensor(node.input[0])) if node.op == "ZerosLike" else None
        if like is None:
            raise UnsupportedError(f"it goes on with a list of {node.name} ({node.op})")
        zeros = NodeDef(name=f"{self._frame.name}/stitched/{node.name}", op="ZerosLike", device=node.device,
                        input=[like.tensor])
        zeros.attr["T"].type = self._type(like.tensor)[0]
        return StackedList(self._add(zeros, [self._type(like.tensor)]))

    def _rows(self, variable: LoopVariable) -> str:
        """The tensor outside that says how long a list is."""
        use, node = self._list_uses.of(variable), self._outer[producer_of(variable.initial)]
        rows = self._variables.from_outside(use.rows) if use.use is Use.SUMMED else canonical_tensor(node.input[1])
        if rows is None:
            raise UnsupportedError("the length of a list is computed")
        return rows

    def _outside(self, node: NodeDef) -> str:
        """A copy of a large constant outside of the loop, where what the loop starts from is."""
        copy = NodeDef()
        copy.CopyFrom(node)
        copy.name = f"{self._frame.name}/stitched/{node.name}"
        copy.input[:] = [f"^{producer_of(self._variables.all[0].initial)}"]
        return self._add(copy, self._types_of(node.name))

    def _add(self, node: NodeDef, types: Sequence[OutputType]) -> str:
        """A new node outside of the loop; its tensor."""
        self.new[node.name], self._new_types[node.name] = node, list(types)
        return f"{node.name}:0"

    def _bring_in(self, enter: NodeDef, own: LoopNodes) -> None:
        """Lets the loop's own nodes start from the op's inputs."""
        variable = next((v for v in self._variables.all if v.enter.name == enter.name), None)
        if variable is None or not self._is_list(variable):
            own.start(enter.name, self._op_input(canonical_tensor(enter.input[0])))
            return
        use = self._list_uses.of(variable)
        if use.use in READS:
            source = self._source(variable).tensor
            own.start_of_rows(enter.name, self._op_input(source), self._type(source)[0])
            return
        dtype, dims = self._known_type(use.item)
        if use.use is Use.PUSHED:
            own.start_empty(enter.name, dtype, dims)
        else:
            own.start_reserved(enter.name, self._op_input(self._rows(variable)), dtype, dims)

    # Types.

    def _type(self, tensor: str) -> OutputType:
        """Of a tensor, with sizes as TensorFlow counts them; -1 is unknown.

        Raises:
            UnsupportedError: the IR lacks its element type.
        """
        name, _, index = tensor.rpartition(":")
        enum, dims = self.types(name)[int(index)]
        if of_enum(enum) is None:
            raise UnsupportedError(f"{tensor} has a type that the IR lacks")
        value = self._imported.value(tensor) if name in self._imported.nodes else None
        if value is None:
            return enum, dims
        known = dims if dims is not None and len(dims) == value.type.rank else (-1,) * value.type.rank
        return enum, tuple(as_tensorflow(d, have) for d, have in zip(value.type.shape, known, strict=True))

    def _known_type(self, tensor: str) -> tuple[int, tuple[int, ...]]:
        enum, dims = self._type(tensor)
        if dims is None:
            raise UnsupportedError(f"nothing is known of the rank of {tensor}")
        return enum, dims

    def _result_type(self, variable: LoopVariable, exit_: NodeDef) -> tuple[int, tuple[int, ...]]:
        if not self._is_list(variable):
            return self._known_type(f"{exit_.name}:0")
        use = self._list_uses.of(variable)
        enum, dims = self._known_type(use.item)
        stacks = [self._types_of(user.name)[0][1] for user in self._users.get(exit_.name, ())
                  if user.op == "TensorListStack"]
        rows = next((stack[0] for stack in stacks if stack), -1)  # as TensorFlow's other types have it
        if rows == -1 and use.use is not Use.PUSHED:
            count = self._imported.statics.get(self._rows(variable))
            rows = -1 if count is None or count.size != 1 else as_tensorflow(count.flat[0], -1)
        return enum, (rows, *dims)

    def _is_zero(self, tensor: str) -> bool:
        value = self._imported.value(tensor)
        while value is not None and value.kind in (OpKind.BROADCAST, OpKind.RESHAPE):
            value = value.operands[0]
        return value is not None and isinstance(value.attrs, ConstantAttrs) and not value.attrs.value.any()


def _check_carried(roles: LoopRoles, body: RegionGraph) -> None:
    """Refuses variables of which it is known that their shape changes."""
    given, results = body.argument_shapes, dict(body.graph.outputs)
    for number, role in enumerate(roles.body):
        if isinstance(role, Carried):
            before, after = given[number], results[output_key(role.output)].type.shape
            if len(before) != len(after) or any(isinstance(a, int) and isinstance(b, int) and a != b
                                                for a, b in zip(before, after, strict=True)):
                raise UnsupportedError(f"{body.inputs[number]} changes its shape")


def _check_rows(roles: LoopRoles) -> None:
    """Refuses rows whose number is itself in a row with a number, which the op would have to look up first."""
    rows = [role.row for role in (*roles.body, *roles.outputs) if isinstance(role, Element | Stack)]
    for numbering in (roles.body[row.number] for row in rows if row.number is not None):
        if isinstance(numbering, Element) and numbering.row.number is not None:
            raise UnsupportedError("the number of an element is an element whose number is no counter")
