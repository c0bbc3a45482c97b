"""Takes out of loops what no iteration changes: values of variables, and of other types what matmuls read of them (a
kernel of its own in every iteration, where weights are cast to halves); lengths and element shapes of lists, numbers of
elements that are always the same, sizes of the graph's arguments. What a loop pushes again and again for its gradient's
loop (a weight, or the shape of what is broadcast) goes there as it is, without the list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_INT32

from tf_stitch.frontend.tensorflow.control_context import control_contexts, frame_names
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of, topological
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.frontend.tensorflow.loop_frames import READS_VARIABLE, LoopFrame, loop_frames, why_not_unrolled
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.frontend.tensorflow.registry import LEGALIZATIONS
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.iteration_gates import gate_iterations
from tf_stitch.graph.loops.loop_cells import cells, constant, number_in, take_cell
from tf_stitch.graph.pruning import prune
from tf_stitch.graph.shapes.argument_sizes import ArgumentSizes, outer_nodes
from tf_stitch.graph.state import GraphState

_OF_A_LIST = ("TensorListLength", "TensorListElementShape")
_CAST = "Cast"
_MAY_LEAVE = (READS_VARIABLE, *_OF_A_LIST, _CAST)


def hoist(state: GraphState) -> GraphState:
    """The graph with such things outside of its loops, as far as a loop's structure is understood."""
    after, preserved = state.copy_graph(), state.preserved
    hoister = _Hoister(after, state.types_of)
    frames = _frames(after, preserved)
    for frame in frames:
        hoister.take_out(frame)
        hoister.take_cells(frame)
        hoister.take_places(frame)
    pushed = {frame.name: found for frame in frames if (found := hoister.pushed_sizes(frame))}
    if pushed:
        hoister.take_sizes([frame for frame in frames if frame.name in pushed], state.imported)
    hoister.add_new()
    frames = _frames(after, preserved)
    pushes = _Pushes(after, frames)
    for frame in frames:
        for variable in LoopVariables(frame).all:
            pushes.hand_over(frame, variable, hoister)
    gone = pushes.gone | hoister.gone
    kept = [node for node in after.node if node.name not in gone]
    del after.node[:]
    after.node.extend(kept)
    hoister.add_new()
    for frame in _frames(after, preserved) if frames else ():
        hoister.gate(frame)
    hoister.add_new()
    prune(after, state.graph_def, preserved)
    return state.with_graph(after, hoister.types)


def _frames(graph_def: GraphDef, preserved: frozenset[str]) -> list[LoopFrame]:
    found = loop_frames(list(topological({node.name: node for node in graph_def.node})))
    return [frame for frame in found.values()
            if isinstance(frame, LoopFrame) and why_not_unrolled(frame, preserved) is None]


class _Hoister:
    """Moves nodes of a graph in place; new nodes wait for `add_new`."""

    def __init__(self, graph_def: GraphDef, types_of: TypesOf) -> None:
        self._graph_def, self._types_of = graph_def, types_of
        self._new: list[NodeDef] = []
        self._new_types: dict[str, list[OutputType]] = {}
        self._defs = {node.name: node for node in graph_def.node}
        self._users: dict[str, list[NodeDef]] = {}
        for node in graph_def.node:
            for name in dict.fromkeys(producer_of(t) for t in node.input):
                self._users.setdefault(name, []).append(node)
        self.gone: set[str] = set()

    def types(self, name: str) -> list[OutputType]:
        return self._new_types.get(name) or self._types_of(name)

    def add_new(self) -> None:
        self._graph_def.node.extend(self._new)
        self._new = []

    def take_out(self, frame: LoopFrame) -> None:
        variables = LoopVariables(frame)
        enter = frame.of(ENTERS)[0]
        waits = dict.fromkeys(t for node in frame.of(ENTERS) for t in node.input if t.startswith("^"))
        inner: dict[str, str] = {}
        for node in frame.of(_MAY_LEAVE):
            read = variables.seen_through(node.input[0])
            source = read if producer_of(read) in inner else variables.from_outside(read)
            if source is not None and (node.op != _CAST or self._is_multiplied(node)):
                node.input[:] = [source, *waits]
                inner[node.name] = self.brought_in(f"{node.name}:0", f"{node.name}/tfs_enter", enter)
        _rewire(frame.nodes, {f"{name}:0": f"{entered}:0" for name, entered in inner.items()}, inner, inner)

    def _is_multiplied(self, node: NodeDef) -> bool:
        ops = (user.op for user in self._users.get(node.name, ()) if f"^{node.name}" not in user.input)
        return any(op in LEGALIZATIONS and LEGALIZATIONS[op].library for op in ops)

    def take_cells(self, frame: LoopFrame) -> None:
        """See loop_cells."""
        for cell in cells(frame, self._defs, self._users, self.types):
            self._new += take_cell(frame, cell, self.types(cell.reads[0].name)[:1], self._set_types)
            self.gone.update(node.name for node in (cell.change, *cell.reads))

    def take_places(self, frame: LoopFrame) -> None:
        """Has the number of an element that each iteration sets come from outside, as other numbers do."""
        variables = LoopVariables(frame)
        enter = frame.of(ENTERS)[0]
        for node in frame.of(("TensorListSetItem",)):
            place = number_in(variables.defs, variables.seen_through(node.input[1]))
            if place is not None and node.name not in self.gone:
                number = constant(f"{node.name}/tfs_place", place, enter)
                self._new.append(number)
                self._set_types(number, [(DT_INT32, ())])
                node.input[1] = self.brought_in(f"{number.name}:0", f"{number.name}/tfs_enter", enter)

    def gate(self, frame: LoopFrame) -> None:
        """See iteration_gates."""
        node = gate_iterations(frame.nodes)
        if node is not None:
            self._new.append(node)
            self._set_types(node, self.types(producer_of(node.input[0]))[1:])

    def pushed_sizes(self, frame: LoopFrame) -> dict[str, str]:
        """Node that pushes whole numbers which the loop computes -> their tensor."""
        variables = LoopVariables(frame)
        computed = {node.name: variables.seen_through(node.input[1]) for node in frame.of(("TensorListPushBack",))
                    if variables.from_outside(node.input[1]) is None}
        return {name: t for name, t in computed.items()
                if self.types(producer_of(t))[int(t.rpartition(":")[2])][0] == DT_INT32}

    def take_sizes(self, frames: Iterable[LoopFrame], imported: ImportedGraph) -> None:
        """Has such numbers come from outside where arguments tell them. Loops in branches or other loops stay."""
        contexts = control_contexts(imported, frame_names(self._graph_def))
        sizes = ArgumentSizes(imported, self._types_of, outer_nodes(self._graph_def, imported))
        for frame in frames:
            enter = frame.of(ENTERS)[0]
            if contexts[enter.name] != {("frame", frame.name)}:
                continue
            defs = {node.name: node for node in frame.nodes}
            for name, tensor in self.pushed_sizes(frame).items():
                if (again := sizes.again(tensor, enter.device)) is not None:
                    self._new_types |= sizes.types
                    defs[name].input[1] = self.brought_in(f"{again}:0", f"{name}/tfs_sizes", enter)
        self._new += sizes.new

    def _set_types(self, node: NodeDef, types: Sequence[OutputType]) -> None:
        self._new_types[node.name] = list(types)

    def brought_in(self, tensor: str, name: str, like: NodeDef) -> str:
        """A new Enter that brings a tensor into the loop that `like` enters."""
        output = self.types(producer_of(tensor))[int(tensor.rpartition(":")[2])]
        node = NodeDef(name=name, op="Enter", device=like.device, input=[tensor])
        node.attr["T"].type = output[0]
        node.attr["frame_name"].CopyFrom(like.attr["frame_name"])
        node.attr["is_constant"].b = True
        node.attr["parallel_iterations"].CopyFrom(like.attr["parallel_iterations"])
        self._new.append(node)
        self._new_types[name] = [output]
        return name


class _Pushes:
    """Lists into which a loop pushes one tensor again and again, and of which other loops only pop."""

    def __init__(self, graph_def: GraphDef, frames: Iterable[LoopFrame]) -> None:
        self._users: dict[str, list[NodeDef]] = {}
        for node in graph_def.node:
            for name in dict.fromkeys(producer_of(t) for t in node.input):
                self._users.setdefault(name, []).append(node)
        self._loops = {node.name: (frame, LoopVariables(frame)) for frame in frames for node in frame.of(ENTERS)}
        self._defs = {node.name: node for node in graph_def.node}
        self.gone: set[str] = set()

    def hand_over(self, frame: LoopFrame, variable: LoopVariable, hoister: _Hoister) -> None:
        """Lets the loops that pop such a list read the tensor; what kept the list is gone."""
        push = self._defs[producer_of(variable.back)]
        if push.op != "TensorListPushBack":
            return
        variables = self._loops[variable.enter.name][1]
        source = variables.from_outside(push.input[1])
        readers = [user for exit_ in variable.exits for user in self._read_by(exit_)]
        if source is None or not variable.exits or any(user.name not in self._loops for user in readers):
            return
        gone = self._chain(variable, push)
        pops: list[tuple[LoopFrame, NodeDef]] = []
        for reader in readers:
            found = self._popped_by(reader)
            if found is None:
                return
            popped, pop = found
            gone |= self._chain(popped, pop)
            pops.append((self._loops[reader.name][0], pop))
        if not self._is_closed(gone, {pop.name for _, pop in pops}):
            return
        for loop, pop in pops:
            name = hoister.brought_in(source, f"{pop.name}/tfs_enter", loop.of(ENTERS)[0])
            _rewire(loop.nodes, {f"{pop.name}:1": f"{name}:0"}, {}, ())
        for user in {user.name: user for name in gone for user in self._users.get(name, ())}.values():
            user.input[:] = [t for t in user.input if producer_of(t) not in gone or user.name in gone]
        self.gone |= gone

    def _popped_by(self, enter: NodeDef) -> tuple[LoopVariable, NodeDef] | None:
        """The variable by which a loop goes on with a list, and the node that pops; None if it does more with it."""
        variable = next((v for v in self._loops[enter.name][1].all if v.enter.name == enter.name), None)
        if variable is None or any(self._read_by(exit_) for exit_ in variable.exits):
            return None
        pop = self._defs[producer_of(variable.back)]
        return (variable, pop) if pop.op == "TensorListPopBack" else None

    def _read_by(self, node: NodeDef) -> list[NodeDef]:
        return [u for u in self._users.get(node.name, ()) if f"^{node.name}" not in u.input]

    def _chain(self, variable: LoopVariable, change: NodeDef) -> set[str]:
        """The nodes that keep a list from iteration to iteration, where nothing but `change` does something with it."""
        found = {variable.merge, variable.enter.name, change.name, *(e.name for e in variable.exits)}
        pending = [producer_of(variable.value) if variable.value else change.name, change.name]
        while pending:
            name = pending.pop()
            found.add(name)
            for user in self._users.get(name, ()):
                passes_on = user.op in ("Identity", "NextIteration") and f"^{name}" not in user.input
                if passes_on and user.name not in found and (
                        name != change.name or canonical_tensor(user.input[0]) == f"{change.name}:0"):
                    pending.append(user.name)
        return found

    def _is_closed(self, gone: set[str], pops: Collection[str]) -> bool:
        """Whether nobody else uses these nodes but for what is popped, and who waits for a loop waits for it still."""
        for name in gone:
            for user in self._users.get(name, ()):
                if user.name in gone:
                    continue
                if f"^{name}" in user.input:
                    others = [producer_of(t) for t in user.input if producer_of(t) not in gone]
                    if self._defs[name].op not in EXITS or not any(self._defs[o].op in EXITS for o in others):
                        return False
                elif name not in pops or f"{name}:1" not in user.input or \
                        any(canonical_tensor(t) == f"{name}:0" for t in user.input):
                    return False
        return True


def _rewire(nodes: Iterable[NodeDef], tensors: Mapping[str, str], controls: Mapping[str, str],
            but: Collection[str]) -> None:
    """Lets nodes, `but` for some, read other tensors, and wait for other nodes."""
    for node in nodes:
        if node.name not in but:
            node.input[:] = [f"^{controls.get(t[1:], t[1:])}" if t.startswith("^")
                             else tensors.get(canonical_tensor(t), t) for t in node.input]
