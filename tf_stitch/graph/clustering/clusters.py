"""Forms the regions of a graph: sets of nodes that one op each replaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.errors import StitchError, UnsupportedError
from tf_stitch.frontend.tensorflow.control_context import control_contexts, frame_names
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.variable_ops import HELD_HANDLE, VARIABLES
from tf_stitch.graph.clustering.collectives import in_order, waits_for_others
from tf_stitch.graph.clustering.device_crossings import SMALL_ELEMENTS, device_stages
from tf_stitch.graph.clustering.eligibility import Eligibility
from tf_stitch.graph.clustering.hidden_sizes import arguments_that_show
from tf_stitch.graph.clustering.private_tensors import SPLIT_ACROSS_REGIONS, private_edges, split_across_regions
from tf_stitch.graph.clustering.region_graph import RegionGraph, cut_region
from tf_stitch.graph.clustering.region_replacement import MakeNode, RegionReplacement
from tf_stitch.graph.state import GraphState
from tf_stitch.planning.regions import find_regions
from tf_stitch.planning.remote_stitching import Profiles, RegionNode

MAX_ROUNDS = 8
"""How often regions are formed again without the nodes that turned out not to fit."""

_BLIND = "writes a variable that the region does not read"


@dataclass
class Regions:
    """What was found in a graph. `left_out` maps every node of no region to the reason it stays a TensorFlow op."""

    regions: list[RegionGraph] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def keep(self, count: int, reason: str) -> None:
        """Leaves out all regions but the first `count`."""
        for region in self.regions[count:]:
            self.left_out.update(dict.fromkeys(region.members, reason))
        del self.regions[count:]

    def leave(self, region: RegionGraph, reason: str) -> None:
        """Leaves out a region."""
        self.left_out.update(dict.fromkeys(region.members, reason))
        self.regions.remove(region)


@dataclass(frozen=True)
class ClusterOptions:
    """
    Attributes:
        min_weight: fewest working nodes that are worth a region.
        profiles: of the devices, by which regions are merged.
        native: regions run as the native op; else in Python on the CPU, where they read and update no variables.
        why_not: why the user wants a node left alone, None if nobody does.
    """

    min_weight: int
    profiles: Profiles
    native: bool = True
    why_not: Callable[[str], str | None] = lambda name: None


class Clustering:
    """Finds regions in a graph and replaces them. Where a state's library_on says all matmuls, regions read the
    variables that those need."""

    def __init__(self, state: GraphState, options: ClusterOptions) -> None:
        imported, graph_def = state.imported, state.graph_def
        self._state, self._imported = state, imported
        # A function hands its values out through _Retval nodes: other nodes that must exist are only waited for.
        is_function = any(n.op in ("_Arg", "_Retval", HELD_HANDLE) for n in graph_def.node)
        self._fetched = frozenset[str]() if is_function else state.preserved
        self._min_weight, self._profiles = options.min_weight, options.profiles
        self._users = _users(imported)
        self._position = {name: i for i, name in enumerate(imported.nodes)}
        self._followers: dict[str, list[str]] = {}
        for node in imported.nodes.values():
            for before in node.control_inputs:
                self._followers.setdefault(before, []).append(node.name)
        self._contexts = control_contexts(imported, frame_names(graph_def))
        self._eligibility = Eligibility(state, {n.name: n for n in graph_def.node}, self._fetched, self._contexts,
                                        options.native, options.why_not)
        self._private = private_edges(imported)
        self._stages = device_stages(imported)
        self._cuts: dict[tuple[str, ...], RegionGraph] = {}

    def find(self) -> Regions:
        """Regions that can be cut out, in topological order."""
        nodes = self._region_nodes()
        for _ in range(MAX_ROUNDS):
            regions: list[RegionGraph] = []
            refused: dict[str, str] = {}
            unfit: dict[str, str] = {}
            for found in find_regions(nodes, 1, self._profiles):
                members = self._trim(found)
                weight = self._weight(members)
                if weight < self._min_weight:
                    unfit.update(dict.fromkeys(members, _too_small(weight, self._min_weight)))
                    continue
                blind = self._blind_writers(members)
                if blind:  # all at once: a region of many updates would use up the rounds one by one
                    refused.update(dict.fromkeys(blind, _BLIND))
                    unfit.update(dict.fromkeys(members, f"its region could not be cut out: {_BLIND}"))
                    continue
                try:
                    regions.append(self._cut(members))
                except (UnsupportedError, StitchError) as error:
                    # What names no node is true of all of them.
                    culprits = (error.loc.node,) if error.loc and error.loc.node in members else members
                    refused.update(dict.fromkeys(culprits, error.message))
                    unfit.update(dict.fromkeys(members, f"its region could not be cut out: {error.message}"))
            regions = self._without_split_tensors(regions, refused, unfit)
            if not refused:
                break
            self._eligibility.refused.update(refused)
            nodes = [replace(n, place=None) if n.name in refused else n for n in nodes]
        return Regions(regions, self._left_out(regions, unfit))

    def apply(self, regions: Sequence[RegionGraph], make_node: MakeNode) -> GraphDef:
        """The graph with every region replaced; preserved nodes stay as identities of the region's results."""
        replacement = RegionReplacement(self._state, self._fetched, self._contexts)
        return replacement.apply(regions, make_node)

    def showing_sizes(self, region: RegionGraph) -> RegionGraph | None:
        """The region with arguments of the graph among its inputs for the sizes that it has no tensor of; None if there
        are none. See hidden_sizes."""
        node = self._imported.nodes[region.members[0]]
        imported = self._imported if region.assumes else self._state.sure
        shown = () if self._contexts[node.name] else arguments_that_show(imported, region, node.device)
        if not shown:
            return None
        assumed = self._state.assumption if region.assumes else None
        return cut_region(imported, region.members, self._wanted(region.members), assumed, shown)

    def _cut(self, members: tuple[str, ...]) -> RegionGraph:
        """The region of these nodes; most are the same in the next round. Errors as in cut_region."""
        if members not in self._cuts:
            self._cuts[members] = self._cut_surely(members) or cut_region(
                self._imported, members, self._wanted(members), self._state.assumption)
        return self._cuts[members]

    def _cut_surely(self, members: tuple[str, ...]) -> RegionGraph | None:
        """The region if it depends on no size being equal to another. So it has to be in a branch or loop.

        Raises:
            UnsupportedError: it does, in a branch or loop.
        """
        sure = self._state.sure
        if sure is self._imported or any(sure.nodes[m].reason is not None for m in members):
            return None
        try:
            return cut_region(sure, members, self._wanted(members))
        except UnsupportedError:
            if self._contexts[members[0]]:
                raise
            return None

    def _without_split_tensors(self, regions: Sequence[RegionGraph], refused: dict[str, str], unfit: dict[str, str]
                      ) -> list[RegionGraph]:
        """The regions but for those that cannot hand over a tensor; adds the nodes in question to `refused`."""
        apart = split_across_regions((r.members for r in regions), self._private)
        refused.update(dict.fromkeys(apart, SPLIT_ACROSS_REGIONS))
        for region in regions:
            if not apart.isdisjoint(region.members):
                unfit.update(dict.fromkeys(region.members, f"its region could not be cut out: {SPLIT_ACROSS_REGIONS}"))
        return [r for r in regions if apart.isdisjoint(r.members)]

    def _weight(self, members: Sequence[str]) -> int:
        """Working nodes; a large one by itself counts as two."""
        working = [node for m in members if (node := self._imported.nodes[m]).weight]
        return 2 if len(working) == 1 and _is_large(working[0]) else len(working)

    def _left_out(self, regions: Sequence[RegionGraph], unfit: Mapping[str, str]) -> dict[str, str]:
        """A reason for every node of no region."""
        inside = {m for r in regions for m in r.members}
        reasons: dict[str, str] = {}
        for node in self._imported.nodes.values():
            if node.name in inside:
                continue
            reason = self._eligibility.why_not(node) or unfit.get(node.name)
            if reason is None:  # it was at the rim of a region and has been trimmed off
                near = {t.rpartition(":")[0] for t in node.inputs} | self._users.get(node.name, set())
                reason = f"costs nothing by itself, {'at the rim of a' if near & inside else 'next to no'} region"
            reasons[node.name] = reason
        return reasons

    def _region_nodes(self) -> list[RegionNode]:
        others = waits_for_others(self._imported)
        nodes = [RegionNode(n.name, self._producers(n), (*n.control_inputs, *others.get(n.name, ())),
                            self._place(n), n.weight, bool(n.writes),
                            0 if n.op in _ALLOCATES_NOTHING else _nbytes(n), _nbytes(n))
                 for n in self._imported.nodes.values()]
        return in_order(nodes, others)

    def _producers(self, node: ImportedNode) -> tuple[str, ...]:
        """Nodes whose data it reads, without the back edges of loops: the rest is acyclic."""
        names = dict.fromkeys(t.rpartition(":")[0] for t in node.inputs)
        return tuple(n for n in names if self._imported.nodes[n].op not in ("NextIteration", "RefNextIteration"))

    def _place(self, node: ImportedNode) -> tuple[object, ...] | None:
        """Where a node runs, None if no region may hold it."""
        if self._eligibility.why_not(node) is not None:
            return None
        return node.device, self._contexts[node.name], self._stages.get(node.name, 0)

    def _blind_writers(self, members: Sequence[str]) -> list[str]:
        """Members that write a variable which no member reads."""
        nodes = [self._imported.nodes[m] for m in members]
        read = {h for n in nodes for h in n.reads}
        return [n.name for n in nodes if any(h not in read for h in n.writes)]

    def _trim(self, members: Sequence[str]) -> tuple[str, ...]:
        """Without nodes at the rim that cost nothing outside: reshapes of results, reads of other variables."""
        inside = dict.fromkeys(members)
        written = {h for m in members for h in self._imported.nodes[m].writes}  # who writes stays
        changed = True
        while changed:
            changed = False
            for name in list(inside):
                if self._droppable(self._imported.nodes[name], inside, written):
                    del inside[name]
                    changed = True
        return tuple(inside)

    def _droppable(self, node: ImportedNode, inside: dict[str, None], written: set[str]) -> bool:
        if node.weight or node.writes:
            return False
        users = self._users.get(node.name, ())
        if not any(u in inside for u in (*users, *self._followers.get(node.name, ()))):
            return True
        before = {t.rpartition(":")[0] for t in node.inputs} | set(node.control_inputs)
        if any(b in inside for b in before):
            return False
        if node.op == "ReadVariableOp":
            if self._eligibility.reads_constant(node):
                return False
            if not any(h in written for h in node.reads):
                return True
        return node.name in self._fetched or any(u not in inside for u in users)

    def _wanted(self, members: Sequence[str]) -> list[str]:
        """Tensors of the region that somebody outside reads."""
        inside = set(members)
        wanted: dict[str, None] = {}
        readers = {u for m in members for u in self._users.get(m, ()) if u not in inside}
        for reader in sorted(readers, key=self._position.__getitem__):
            for tensor in self._imported.nodes[reader].inputs:
                if tensor.rpartition(":")[0] in inside:
                    value = self._imported.value(tensor)
                    if value is None:  # see _without_split_tensors
                        continue
                    wanted[tensor] = None
                    for owner in self._owners(tensor):  # other regions ask for it by its first name
                        if owner.rpartition(":")[0] in inside:
                            wanted[owner] = None
        for name in members:
            if name in self._fetched:
                wanted.update(dict.fromkeys(f"{name}:{i}" for i in range(len(self._imported.nodes[name].outputs))))
        return list(wanted)

    def _owners(self, tensor: str) -> list[str]:
        """The first names of a tensor's value, with sizes assumed equal and without."""
        found = ((g, g.value(tensor)) for g in (self._imported, self._state.sure))
        return [g.owner[value] for g, value in found if value is not None and value in g.owner]


def _too_small(weight: int, least: int) -> str:
    work = {0: "no working nodes", 1: "one working node"}.get(weight, f"{weight} working nodes")
    return f"{work} together with what it could be stitched to; TF_STITCH_MIN_REGION is {least}"


def _users(imported: ImportedGraph) -> dict[str, set[str]]:
    """Nodes that read a node's data."""
    users: dict[str, set[str]] = {}
    for node in imported.nodes.values():
        for tensor in node.inputs:
            users.setdefault(tensor.rpartition(":")[0], set()).add(node.name)
    return users


_ALLOCATES_NOTHING = ("Arg", "_Arg", "Const", "Placeholder", "ReadVariableOp", *VARIABLES)


def _is_large(node: ImportedNode) -> bool:
    """Whether a kernel of this op alone is worth it: on CPUs, where TensorFlow's transposes, softmaxes and broadcasts
    of more than a few elements take two to four times as long as ours."""
    types = [v.type for v in node.outputs if v is not None]
    if device_type(node.device) not in ("", "CPU") or node.library:
        return False
    return any(t.rank > 1 and (not t.is_static or t.numel > SMALL_ELEMENTS) for t in types)


def _nbytes(node: ImportedNode) -> int:
    """Bytes of its results, 0 if unknown."""
    return sum(v.type.nbytes for v in (*node.outputs, *node.writes.values()) if v is not None and v.type.is_static)
