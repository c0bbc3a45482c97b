"""Lists of which a loop uses one element (the gradient of a layer's last output) become variables of that element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorflow import int32, make_tensor_proto
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.constant_arrays import constant_array
from tf_stitch.frontend.tensorflow.control_flow import NEXT_ITERATIONS
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.graph.graph_item import OutputType

SetTypes = Callable[[NodeDef, Sequence[OutputType]], None]


@dataclass(frozen=True)
class Cell:
    """A list variable whose iterations read and set one element.

    Attributes:
        place: the element's number.
        change: the TensorListSetItem.
        reads: the TensorListGetItems.
        passes: what passes the list on within an iteration.
    """

    variable: LoopVariable
    place: int
    change: NodeDef
    reads: tuple[NodeDef, ...]
    passes: tuple[NodeDef, ...]


def cells(frame: LoopFrame, outer: Mapping[str, NodeDef], users: Mapping[str, Iterable[NodeDef]], types_of: TypesOf
          ) -> list[Cell]:
    """A loop's cells: lists that it begins with as rows of a tensor, and that nobody reads after it. The element is
    known to be there: a loop that ends at once does not read it.

    Args:
        outer: the graph's nodes by name.
        users: node -> nodes that use it.
    """
    variables = LoopVariables(frame)
    found: list[Cell] = []
    for variable in variables.all:
        begin = outer[producer_of(variable.initial)]
        if variable.value and begin.op == "TensorListFromTensor":
            cell = _cell(variable, variables, frame, users)
            if cell is not None and cell.place < _first_size(begin.input[0], types_of):
                found.append(cell)
    return found


def _first_size(tensor: str, types_of: TypesOf) -> int:
    """The least that a tensor's first size can be."""
    dims = types_of(producer_of(tensor))[int(canonical_tensor(tensor).rpartition(":")[2])][1]
    return max(dims[0], 0) if dims else 0


def _cell(variable: LoopVariable, variables: LoopVariables, frame: LoopFrame, users: Mapping[str, Iterable[NodeDef]]
          ) -> Cell | None:
    defs = {node.name: node for node in frame.nodes}
    touched = [n for n in frame.nodes if n.input and not n.input[0].startswith("^")
               and variables.seen_through(n.input[0]) == variable.value and producer_of(variable.value) != n.name]
    reads = tuple(n for n in touched if n.op == "TensorListGetItem")
    changes = [n for n in touched if n.op == "TensorListSetItem" and variable.back == f"{n.name}:0"]
    passes = tuple(n for n in touched if n.op == "Identity")
    if len(changes) != 1 or not reads or len(touched) != len(reads) + len(passes) + 1:
        return None
    if _is_used_otherwise((*changes, *reads), variable, users):
        return None
    places = {number_in(defs, variables.seen_through(n.input[1])) for n in (*changes, *reads)}
    place = places.pop()
    return None if places or place is None else Cell(variable, place, changes[0], reads, passes)


def _is_used_otherwise(touching: Sequence[NodeDef], variable: LoopVariable, users: Mapping[str, Iterable[NodeDef]]
                       ) -> bool:
    """Whether somebody waits for what reads or changes a list, or reads it after the loop."""
    waited_for = any(f"^{n.name}" in u.input for n in touching for u in users.get(n.name, ()))
    return waited_for or any(f"^{e.name}" not in u.input for e in variable.exits for u in users.get(e.name, ()))


def take_cell(frame: LoopFrame, cell: Cell, types: Sequence[OutputType], set_types: SetTypes) -> list[NodeDef]:
    """Makes the element the variable; the list's nodes are for the caller to remove.

    Args:
        types: of the element.

    Returns:
        new nodes outside of the loop.
    """
    variable, first = cell.variable, cell.reads[0]
    place = constant(f"{first.name}/tfs_place", cell.place, variable.enter)
    shape = constant(f"{first.name}/tfs_shape", -1, variable.enter)
    taken = NodeDef(name=f"{first.name}/tfs_first", op="TensorListGetItem", device=first.device,
                    input=[variable.initial, place.name, shape.name])
    taken.attr["element_dtype"].CopyFrom(first.attr["element_dtype"])
    set_types(taken, types)
    for node in (place, shape):
        set_types(node, [(int32.as_datatype_enum, ())])
    variable.enter.input[0] = taken.name
    reads = {f"{node.name}:0" for node in cell.reads}
    merge = next(node for node in frame.nodes if node.name == variable.merge)
    comes_back = {producer_of(t) for t in merge.input}
    kept = {merge.name, producer_of(variable.value), *(n.name for n in (variable.enter, *cell.passes, *variable.exits))}
    for node in frame.nodes:
        node.input[:] = [variable.value if not t.startswith("^") and canonical_tensor(t) in reads else t
                         for t in node.input]
        if node.name in kept or (node.name in comes_back and node.op in NEXT_ITERATIONS):
            node.attr["T"].type = types[0][0]
            set_types(node, {"Merge": [*types, (int32.as_datatype_enum, ())], "Switch": [*types, *types]}.get(
                node.op, types))
        if node.name in comes_back and node.op in NEXT_ITERATIONS:
            node.input[0] = cell.change.input[2]
    return [place, shape, taken]


def number_in(defs: Mapping[str, NodeDef], tensor: str) -> int | None:
    """The whole number that a tensor of these nodes is, None if it is no constant."""
    node = defs.get(producer_of(tensor))
    return int(constant_array(node.attr["value"].tensor)) if node is not None and node.op == "Const" else None


def constant(name: str, value: int, enter: NodeDef) -> NodeDef:
    """A scalar of int32 where a loop is entered, which may be within another loop."""
    node = NodeDef(name=name, op="Const", device=enter.device, input=[f"^{producer_of(enter.input[0])}"])
    node.attr["dtype"].type = int32.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(make_tensor_proto(value, int32))
    return node
