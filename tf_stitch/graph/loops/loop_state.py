"""Resource variables that one loop alone reads and assigns become loop variables: read once before the loop, assigned
once behind it. Such is the state of a Keras SeedGenerator, from which each iteration draws."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tensorflow import int32
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.loop_frames import READS_VARIABLE, LoopFrame, loop_frames
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.state import GraphState

_ASSIGNS = "AssignVariableOp"
_INT32: int = int32.as_datatype_enum
_PASSES = ("Identity", *ENTERS)


@dataclass(frozen=True)
class _LoopState:
    """A variable of a loop.

    Attributes:
        handle: the tensor outside that made its handle.
        reads: nodes that read it, all before `assign` in each iteration.
    """

    handle: str
    reads: tuple[NodeDef, ...]
    assign: NodeDef


def carry_state(state: GraphState, but: Collection[str] = ()) -> LoopChange:
    """The graph with such variables carried by its loops, but for those of these names."""
    if not any(node.op == _ASSIGNS for node in state.graph_def.node):
        return LoopChange(state)
    edit = GraphEdit(state)
    changed: dict[str, None] = {}
    for name, frame in loop_frames(edit.order).items():
        if name in but or not isinstance(frame, LoopFrame):
            continue
        for found in _states(frame, edit):
            _carry(found, frame, edit)
            changed[name] = None
    return LoopChange(edit.applied(), changed) if changed else LoopChange(state)


def _states(frame: LoopFrame, edit: GraphEdit) -> list[_LoopState]:
    defs = {node.name: node for node in frame.nodes}
    found = []
    for assign in frame.of((_ASSIGNS,)):
        way = _way_of(assign, edit)
        users = [user for name in way for user in edit.users[name] if user.name not in way]
        reads = tuple(node for node in users if node.op == READS_VARIABLE)
        alone = all(node.name in defs for node in users) and len(users) == len(reads) + 1
        kept = edit.state.preserved.isdisjoint(node.name for node in users)
        leaves = any(user.name not in defs for exit_ in frame.of(EXITS) for user in edit.users.get(exit_.name, ()))
        if reads and alone and kept and leaves and _precede(reads, assign, defs):
            found.append(_LoopState(_handle(way, edit), reads, assign))
    return found


def _way_of(assign: NodeDef, edit: GraphEdit) -> list[str]:
    """Names of the nodes that bring a handle from where it is made."""
    way = [producer_of(assign.input[0])]
    while edit.defs[way[-1]].op in _PASSES:
        way.append(producer_of(edit.defs[way[-1]].input[0]))
    return way


def _handle(way: list[str], edit: GraphEdit) -> str:
    """The tensor that the last but one of these nodes reads, or the assignment itself."""
    return canonical_tensor(edit.defs[way[-2]].input[0])


def _precede(reads: Collection[NodeDef], assign: NodeDef, defs: dict[str, NodeDef]) -> bool:
    """Whether an iteration assigns after all of these."""
    pending, before = [assign.name], set[str]()
    while pending:
        name = pending.pop()
        if name in defs and name not in before:
            before.add(name)
            if defs[name].op not in ENTERS and defs[name].op not in ("Merge", "RefMerge"):
                pending += [producer_of(source) for source in defs[name].input]
    return all(read.name in before for read in reads)


def _carry(state: _LoopState, frame: LoopFrame, edit: GraphEdit) -> None:
    like, name, dtype = frame.of(ENTERS)[0], f"{state.assign.name}/tfs_state", state.assign.attr["dtype"].type
    shape = next((edit.types(read.name)[0][1] for read in state.reads), None)
    waits = dict.fromkeys(t for node in frame.of(ENTERS) for t in node.input if t.startswith("^"))
    value: list[OutputType] = [(dtype, shape)]

    def add(op: str, inputs: list[str], types: list[OutputType], attr: str = "T") -> NodeDef:
        node = NodeDef(name=edit.free_name(f"{name}/{op}"), op=op, device=state.assign.device, input=inputs)
        node.attr[attr].type = dtype
        edit.new.append(node)
        edit.new_types[node.name] = types
        return node

    first = add(READS_VARIABLE, [state.handle, *waits], value, "dtype")
    enter = add("Enter", [first.name], value)
    for key in ("frame_name", "parallel_iterations"):
        enter.attr[key].CopyFrom(like.attr[key])
    merge = add("Merge", [enter.name, f"{name}/NextIteration"], [*value, (_INT32, ())])
    merge.attr["N"].i = 2
    switch = add("Switch", [merge.name, frame.condition.name], value * 2)
    now = add("Identity", [f"{switch.name}:1"], value)
    add("NextIteration", [state.assign.input[1]], value)
    last = add("Exit", [switch.name], value)
    end = add(_ASSIGNS, [state.handle, last.name], [], "dtype")
    edit.gone |= {node.name for node in (*state.reads, state.assign)}
    edit.renamed |= {f"{read.name}:0": f"{now.name}:0" for read in state.reads}
    edit.renamed |= {f"^{node.name}": f"^{now.name}" for node in (*state.reads, state.assign)}
    _wait(end.name, frame, edit)


def _wait(end: str, frame: LoopFrame, edit: GraphEdit) -> None:
    """Has who follows the loop follow the assignment."""
    inside = {node.name for node in frame.nodes}
    changed = {node.name: node for node in edit.new}
    for user in dict.fromkeys(user.name for exit_ in frame.of(EXITS) for user in edit.users.get(exit_.name, ())
                              if user.name not in inside):
        if user not in changed:
            changed[user] = NodeDef()
            changed[user].CopyFrom(edit.defs[user])
            edit.gone.add(user)
            edit.new.append(changed[user])
        changed[user].input.append(f"^{end}")
