"""Puts nodes that run regions into a GraphDef, in place of the regions' nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.attributes import is_stateful
from tf_stitch.frontend.tensorflow.control_flow import SWITCHES
from tf_stitch.frontend.tensorflow.dtypes import to_enum
from tf_stitch.frontend.tensorflow.imported_graph import ImportedNode, producer_of
from tf_stitch.frontend.tensorflow.variable_ops import STANDING
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.origin import set_origin
from tf_stitch.graph.pruning import prune
from tf_stitch.graph.rewired_graph import rewired_graph
from tf_stitch.graph.state import GraphState

MakeNode = Callable[[RegionGraph, str, Sequence[str]], NodeDef]
"""(region, device, control inputs) -> the node that runs it; its inputs named by original tensors."""


@dataclass(frozen=True)
class RegionReplacement:
    """A graph whose regions are to be replaced.

    Attributes:
        fetched: of the preserved nodes those whose results are asked for.
        contexts: the branches and loops that a node is in.
    """

    state: GraphState
    fetched: frozenset[str]
    contexts: Mapping[str, object]

    @cached_property
    def _defs(self) -> dict[str, NodeDef]:
        return {n.name: n for n in self.state.graph_def.node}

    def apply(self, regions: Sequence[RegionGraph], make_node: MakeNode) -> GraphDef:
        """The graph with every region replaced; preserved nodes stay as identities of the region's results."""
        region_of = {m: r for r in regions for m in r.members}
        anchors: dict[str, NodeDef] = {}
        nodes = [make_node(r, self.state.imported.nodes[r.members[0]].device, self._controls(r, anchors))
                 for r in regions]
        for region, node in zip(regions, nodes, strict=True):
            set_origin(node, [self._defs[member] for member in region.members])
        names = {id(r): n.name for r, n in zip(regions, nodes, strict=True)}
        tensor = {t: f"{names[id(r)]}:{i}" for r in regions for t, i in r.outputs.items()}
        control = {f"^{m}": f"^{names[id(r)]}" for m, r in region_of.items()}
        out = rewired_graph(self.state.graph_def, region_of, nodes, tensor | control)
        out.node.extend(anchors.values())
        for region in regions:
            for member in region.members:
                if member in self.state.preserved:
                    out.node.append(self._stand_in(self._defs[member], names[id(region)], tensor))
        prune(out, self.state.graph_def, self.state.preserved)
        return out

    def _controls(self, region: RegionGraph, anchors: dict[str, NodeDef]) -> list[str]:
        """Nodes the region has to follow. Of producers whose data it no longer reads (constants, shape arithmetic, what
        a dead store would have stored) those that bring an order with them; in a branch or loop all, for they tell it
        when it is dead.

        A Switch tells that by its outputs alone: who follows it by a control edge runs in both branches, and once
        more when a loop has ended. An identity of the output is followed in its place.

        Args:
            anchors: gets such identities, by tensor.
        """
        inside = set(region.members)
        found: dict[str, None] = {}
        used = {t.rpartition(":")[0] for t in (*region.inputs, *region.handles)}
        for name in region.members:
            node = self.state.imported.nodes[name]
            found.update(dict.fromkeys(c for c in node.control_inputs if c not in inside))
            for tensor in node.inputs:
                producer = producer_of(tensor)
                if producer not in inside and producer not in used:
                    followed = self._order_of(producer, used)
                    if self.state.imported.nodes[producer].op in SWITCHES:
                        followed = [anchors.setdefault(tensor, self._anchor(tensor)).name]
                    elif self.contexts[name]:
                        followed = [producer]
                    found.update(dict.fromkeys(followed))
        return [f for f in found if f not in inside]

    def _anchor(self, tensor: str) -> NodeDef:
        """A node that is dead when a Switch's output is."""
        switch = self._defs[producer_of(tensor)]
        anchor = NodeDef(name=f"{switch.name}/tfs_taken_{tensor.rpartition(':')[2]}", op="Identity",
                         device=switch.device, input=[tensor])
        anchor.attr["T"].CopyFrom(switch.attr["T"])
        return anchor

    def _order_of(self, name: str, used: set[str]) -> list[str]:
        """The node itself if it brings an order, else such nodes among the arithmetic that gives its value."""
        found: list[str] = []
        stack, seen = [name], {name}
        while stack:
            node = self.state.imported.nodes[stack.pop()]
            if node.name not in self._in_order:
                continue
            if node.weight or node.control_inputs or self._has_state(node):
                found.append(node.name)
                continue
            producers = {producer_of(t) for t in node.inputs} - seen - used
            seen |= producers
            stack += producers
        return found

    @cached_property
    def _in_order(self) -> frozenset[str]:
        """Nodes that come after something: a control input, or what has a state, is among all that leads to them.
        TensorFlow removes control edges that data edges imply: then the value that a store never shows is all that
        holds a read before the next store."""
        found: set[str] = set()
        for node in self.state.imported.nodes.values():
            if node.control_inputs or self._has_state(node) or any(producer_of(t) in found for t in node.inputs):
                found.add(node.name)
        return frozenset(found)

    def _has_state(self, node: ImportedNode) -> bool:
        """Whether it matters when a node runs."""
        if node.op in STANDING or not is_stateful(node.op):
            return False
        constant = self.state.imported.constant_handles
        return node.op != "ReadVariableOp" or not all(handle in constant for handle in node.reads)

    def _stand_in(self, original: NodeDef, region: str, tensor: Mapping[str, str]) -> NodeDef:
        """A node of the same name for one that has to exist."""
        node = self.state.imported.nodes[original.name]
        if not node.outputs or node.name not in self.fetched:
            return NodeDef(name=node.name, op="NoOp", device=node.device, input=[f"^{region}"])
        inputs = [tensor[f"{node.name}:{i}"] for i in range(len(node.outputs))]
        stand_in = NodeDef(name=node.name, op="Identity" if len(inputs) == 1 else "IdentityN", device=node.device,
                           input=inputs)
        types = [to_enum(v.type.dtype) for v in node.outputs if v is not None]
        if len(types) == 1:
            stand_in.attr["T"].type = types[0]
        else:
            stand_in.attr["T"].list.type.extend(types)
        if "_class" in original.attr:
            stand_in.attr["_class"].CopyFrom(original.attr["_class"])
        return stand_in
