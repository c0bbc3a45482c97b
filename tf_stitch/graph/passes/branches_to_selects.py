"""If-conversion: both sides of a branch are computed, and selects choose."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_context import frame_names, truth_of
from tf_stitch.frontend.tensorflow.control_flow import SWITCHES
from tf_stitch.frontend.tensorflow.dtypes import to_enum
from tf_stitch.frontend.tensorflow.imported_graph import ImportedNode, producer_of
from tf_stitch.graph.branches.both_sides import BRANCH, Branches, Sides, branches_of
from tf_stitch.graph.branches.branch_entries import branch_entries, entries_without_import
from tf_stitch.graph.branches.branch_nodes import ASSIGNMENTS, ForNothing
from tf_stitch.graph.branches.update_orders import earlier_accesses, is_read, touching
from tf_stitch.graph.finish.access_order import check_access_order
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.origin import set_origin
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.dtypes import DType
from tf_stitch.pass_manager import PassResult
from tf_stitch.planning.remote_stitching import Profiles

_TRUTH: OutputType = (to_enum(DType.BOOL), ())
_SUM = {"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}


@dataclass(frozen=True)
class BranchesToSelects:
    """On a GPU a branch asks the host, which waits for all work before it, and ends a region. Where both sides only
    compute (graph/branches/both_sides.py) and update variables - an optimizer behind a test of its gradients, or in
    every fourth step - both are computed, and what a side that is not taken would assign is what the variable had.

    Attributes:
        profiles: of the devices: a GPU's says what a branch may do for nothing.
    """

    profiles: Profiles
    name: str = "branches_to_selects"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        """
        Raises:
            VerifyError: the order of accesses is lost; regions would hide it.
        """
        if state.device_type != "GPU" or not any(node.op in SWITCHES for node in state.graph_def.node):
            stay = entries_without_import(state.graph_def, state.device_type)
            return PassResult(replace(state, branches=stay).with_import_of(state) if stay else state, False)
        sizes = self.profiles["GPU"].sizes
        most = ForNothing(sizes.branch_bytes, sizes.branch_multiplications)
        branches = branches_of(state.imported, frame_names(state.graph_def), state.preserved, most)
        entries = branch_entries(state.graph_def, branches)
        if not branches.predicates:
            return PassResult(replace(state, branches=entries).with_import_of(state), False)
        applied = _Conversion(state, branches).applied()
        check_access_order(state.graph_def, applied.graph_def, {})
        return PassResult(replace(applied, branches=entries), True)


class _Conversion:
    """An edit of a graph, node by node in order."""

    def __init__(self, state: GraphState, branches: Branches) -> None:
        self._graph, self._branches = state.imported, branches
        self._edit = GraphEdit(state)
        self._taken: dict[Sides, str] = {}
        self._firsts: dict[str, list[NodeDef]] = {}
        """Update of variables -> the reads that come before it."""
        self._replaced: dict[str, NodeDef] = {}
        self._skipped: dict[str, list[str]] = {}
        """What passed a handle on -> what it waited for."""
        self._numbers = itertools.count()
        self._touching = touching(self._graph)
        self._before: dict[str, set[str]] = {}
        """Node -> it and all that it needs."""
        self._earlier = self._accesses_to_wait_for()

    def applied(self) -> GraphState:
        """The graph with all of it done."""
        for node in self._graph.nodes.values():
            inside = node.name in self._branches.sides
            switch = node.op in SWITCHES and truth_of(self._graph, node.inputs[1]) in self._branches.predicates
            kept = node.name in self._edit.state.preserved
            is_handle = f"{node.name}:0" in self._graph.handles
            if is_handle and not kept and (inside or switch or self._leads_to_switches(node)):
                self._skip(node, ports=2 if switch else 1)
            elif switch:
                self._replace(node, "Identity", node.inputs[:1])
                self._edit.renamed[f"{node.name}:1"] = f"{node.name}:0"
            elif node.name in self._branches.merges:
                self._choose_value(node)
            elif inside and node.writes:
                (self._assign if node.op in ASSIGNMENTS else self._put_back)(node)
            elif (inside or node.name in self._earlier) and \
                    self._controls(node) != list(dict.fromkeys(node.control_inputs)):
                self._rewait(node)
        for sides in self._both_sides():
            self._follow_each_other(sides)
        return self._edit.applied()

    def _skip(self, node: ImportedNode, ports: int) -> None:
        """Handles are read where they come from, or a region's would wait for its predicate; who waited still does."""
        self._skipped[node.name] = self._controls(node)
        self._edit.gone.add(node.name)
        self._edit.renamed.update({f"{node.name}:{port}": node.inputs[0] for port in range(ports)})

    def _leads_to_switches(self, node: ImportedNode) -> bool:
        """Whether a node hands a handle on, as where a function was inlined, to branches alone that become selects."""
        users = self._edit.users.get(node.name, ())
        return node.op == "Identity" and all(
            user.op in SWITCHES
            and truth_of(self._graph, self._graph.nodes[user.name].inputs[1]) in self._branches.predicates
            for user in users)

    def _choose_value(self, merge: ImportedNode) -> None:
        if merge.name in self._branches.values:
            self._replace(merge, "SelectV2", self._branches.merges[merge.name])
            return
        given = dict.fromkeys(map(producer_of, merge.inputs))
        self._replace(merge, "NoOp", waits(w for name in given for w in self._skipped.get(name, [name]))).attr.clear()

    def _assign(self, update: ImportedNode) -> None:
        """What is assigned is chosen."""
        handle, value = update.inputs
        had, kind = self._read(update, handle)
        if update.op in _SUM:
            value = self._add(update, "sum", _SUM[update.op], [had, value], [kind], T=kind[0])
        chosen = self._add(update, "chosen", "SelectV2", [self._taken_at(update), value, had], [kind], T=kind[0])
        self._replace(update, "AssignVariableOp", [handle, chosen])

    def _put_back(self, update: ImportedNode) -> None:
        """Variables are assigned what they had behind an op that updates several; who waits for it waits for that. It
        waits for the predicate, as it did: that may read what it updates, or fail."""
        taken = self._taken_at(update)
        handles = [tensor for tensor in update.inputs if self._origin(tensor) in update.writes]
        had = [self._read(update, handle) for handle in handles]
        before_it = waits([*(read for read, _ in had), producer_of(taken)])
        done = self._add(update, "update", update.op, [*update.inputs, *before_it], [])
        self._edit.new[-1].attr.MergeFrom(self._edit.defs[update.name].attr)
        for handle, (before, kind) in zip(handles, had, strict=True):
            new = self._add(update, "new", "ReadVariableOp", [handle, f"^{done}"], [kind], dtype=kind[0])
            chosen = self._add(update, "chosen", "SelectV2", [taken, new, before], [kind], T=kind[0])
            done = self._add(update, "put_back", "AssignVariableOp", [handle, chosen], [], dtype=kind[0])
        self._replace(update, "NoOp", waits([done])).attr.clear()

    def _read(self, update: ImportedNode, handle: str) -> tuple[str, OutputType]:
        """What a variable has when all is there that an update needs."""
        value = update.writes[self._origin(handle)].type
        kind = to_enum(value.dtype), value.dims
        data = dict.fromkeys(p for p in map(producer_of, update.inputs) if p not in self._skipped)
        before = waits((*data, *self._controls(update)))
        name = self._add(update, "had", "ReadVariableOp", [handle, *before], [kind], dtype=kind[0])
        self._firsts.setdefault(update.name, []).append(self._edit.new[-1])
        return name, kind

    def _taken_at(self, node: ImportedNode) -> str:
        """The tensor that says whether a node would run."""
        return self._all_of(self._branches.sides[node.name], node)

    def _all_of(self, sides: Sides, node: ImportedNode) -> str:
        if sides not in self._taken:
            [*before, (predicate, is_true)] = sides
            taken = predicate if is_true else self._add(node, "not", "LogicalNot", [predicate], [_TRUTH])
            if before:
                taken = self._add(node, "and", "LogicalAnd", [self._all_of(tuple(before), node), taken], [_TRUTH])
            self._taken[sides] = taken
        return self._taken[sides]

    def _both_sides(self) -> Iterator[list[ImportedNode]]:
        """For each branch and variable nodes that read or update it on both sides, in order, if any updates it."""
        found: dict[tuple[str, str], dict[str, bool]] = {}
        for name, sides in self._branches.sides.items():
            node = self._graph.nodes[name]
            for predicate, is_true in sides:
                for handle in dict.fromkeys((*node.reads, *node.writes)):
                    found.setdefault((predicate, handle), {})[name] = is_true
        for names in found.values():
            nodes = [self._graph.nodes[name] for name in names]
            if len(set(names.values())) == 2 and any(node.writes for node in nodes):
                yield nodes

    def _follow_each_other(self, nodes: Sequence[ImportedNode]) -> None:
        for before, after in itertools.pairwise(nodes):
            for first in self._firsts.get(after.name) or [self._rewait(after)]:
                first.input.append(f"^{before.name}")

    def _controls(self, node: ImportedNode) -> list[str]:
        """Names of what a node waits for, itself or for a handle; or for a predicate, if that comes after an update of
        what the node reads or updates. What reads a variable on a side waits for its updates alone."""
        sides = self._branches.sides.get(node.name, ())
        through = [*node.control_inputs, *(p for p in map(producer_of, node.inputs) if p in self._skipped)]
        names = dict.fromkeys(w for name in through for w in self._skipped.get(name, [name]))
        if sides and node.op == "ReadVariableOp":
            names = dict.fromkeys(n for name in names for n in self._updates_before(name, node))
        for predicate, _ in sides:
            names |= dict.fromkeys(self._updates_before(producer_of(predicate), node))
        return list(names | dict.fromkeys(self._earlier.get(node.name, ())))

    def _accesses_to_wait_for(self) -> dict[str, list[str]]:
        """Node that touches a variable, on a side or behind a branch -> those that touch it before: what it waited for
        may have waited for them by way of a node that waits for less now."""
        behind: set[str] = set()
        for node in self._graph.nodes.values():
            if node.name in self._branches.sides or any(
                    name in behind for name in (*map(producer_of, node.inputs), *node.control_inputs)):
                behind.add(node.name)
        found = {name: list(dict.fromkeys(w for n in earlier for w in self._ways(n, name)))
                 for name, earlier in earlier_accesses(self._graph, self._edit.state.graph_def).items()
                 if name in behind}
        return {name: earlier for name, earlier in found.items() if earlier}

    def _ways(self, before: str, after: str) -> list[str]:
        """What a node waits for so that it comes after another: that itself; or, if it is in a loop or in a branch that
        stays, what is first behind these, as a Merge, and came before the node. Nothing if the node is in a loop: it
        has what leads there."""
        if self._may_lead(before, after):
            return [before]
        if not self._branches.around[before] - self._branches.around[after]:
            return []
        needed, ways, seen, stack = self._needed_by(after), list[str](), {before, after}, [before]
        while stack:
            for user in (node.name for node in self._edit.users.get(stack.pop(), ())):
                if user in needed and user not in seen:
                    seen.add(user)
                    (ways if self._may_lead(user, after) else stack).append(user)
        return ways

    def _may_lead(self, before: str, after: str) -> bool:
        """Whether a node can wait for another itself: out of a loop, or of a branch that stays, and into a loop nothing
        leads but what TensorFlow has there for that."""
        around, own = self._branches.around[before], self._branches.around[after]
        return around <= own and all(key.startswith(BRANCH) for key, _ in own - around)

    def _updates_before(self, name: str, node: ImportedNode) -> list[str]:
        """Updates of what a node reads or updates among a node and what that needs. The node itself, if an update is in
        a loop or on a side of a branch that stays: who waited for that would be inside, too, or would not run."""
        before, around = self._needed_by(name), self._branches.around
        found = [n for handle in dict.fromkeys((*node.reads, *node.writes)) for n in self._touching.get(handle, ())
                 if n in before and not is_read(self._graph.nodes[n])]
        return found if all(around[n] <= around[node.name] for n in found) else [name]

    def _needed_by(self, node: str) -> set[str]:
        """A node and all that it needs."""
        if node not in self._before:
            found, stack = set[str](), [node]
            while stack:
                name = stack.pop()
                if name not in found:
                    found.add(name)
                    known = self._graph.nodes[name]
                    stack += (*map(producer_of, known.inputs), *known.control_inputs)
            self._before[node] = found
        return self._before[node]

    def _origin(self, tensor: str) -> str:
        return self._graph.handles.get(tensor, tensor)

    def _replace(self, node: ImportedNode, op: str, inputs: Sequence[str]) -> NodeDef:
        """A node with the name, the control inputs and the attributes of another, and a result of its first's type."""
        made = self._copied(node, inputs)
        made.op = op
        for attr in ("N", "_output_shapes"):
            made.attr.pop(attr, None)
        self._edit.new_types[node.name] = self._edit.state.types_of(node.name)[:1]
        return made

    def _rewait(self, node: ImportedNode) -> NodeDef:
        """A node as it is, or as it was made again, whose control inputs alone may change."""
        if node.name in self._replaced:
            return self._replaced[node.name]
        return self._copied(node, [edge for edge in self._edit.defs[node.name].input if not edge.startswith("^")])

    def _copied(self, node: ImportedNode, inputs: Sequence[str]) -> NodeDef:
        made = self._replaced[node.name] = NodeDef()
        made.CopyFrom(self._edit.defs[node.name])
        made.input[:] = [*inputs, *waits(self._controls(node))]
        self._edit.gone.add(node.name)
        self._edit.new.append(made)
        return made

    def _add(self, beside: ImportedNode, name: str, op: str, inputs: Sequence[str], kinds: list[OutputType],
             **types: int) -> str:
        """The name of a new node, on the device of another and named after it."""
        number = next(self._numbers)
        made = NodeDef(name=self._edit.free_name(f"{beside.name}/tfs_{name}_{number}"), op=op, input=inputs,
                       device=beside.device)
        set_origin(made, [self._edit.defs[beside.name]])
        for attr, enum in types.items():
            made.attr[attr].type = enum
        self._edit.new.append(made)
        self._edit.new_types[made.name] = kinds
        return str(made.name)


def waits(names: Iterable[str]) -> list[str]:
    """Control inputs."""
    return [f"^{name}" for name in names]
