"""What the report says of conditionals: each became selects, or is a branch still, and why."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import CONDITIONALS, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.graph.branches.both_sides import Branches
from tf_stitch.graph.origin import origin
from tf_stitch.report.entries import BranchEntry

ON_A_CPU = "on a CPU a branch costs little"
_ENDS_LOOP = "LoopCond"
_LOWERED = re.compile(r"(/Switch|/(switch_pred|branch_index)/_\d+)$")
"""What the name of a conditional's own Switch has behind the conditional's."""


def branch_entries(graph_def: GraphDef, branches: Branches) -> tuple[BranchEntry, ...]:
    """An entry for each predicate of a graph, in the graph's order, and for each op that calls functions."""
    found, names = [], {node.name for node in graph_def.node}
    for predicate, switch in _first_switches(graph_def).items():
        reason = branches.stay.get(predicate)
        if reason is None and predicate not in branches.predicates:
            reason = "nothing is on its sides"
        found.append(BranchEntry(_users_name(switch), _node(switch, names), predicate, reason,
                                 len(branches.members.get(predicate, ())), branches.for_nothing.get(predicate, 0)))
    return (*found, *_calls(graph_def))


def entries_without_import(graph_def: GraphDef, device_type: str) -> tuple[BranchEntry, ...]:
    """The same for a graph of which no branch may become selects, without a look into it."""
    names = {node.name for node in graph_def.node}
    found = [BranchEntry(_users_name(switch), _node(switch, names), predicate, ON_A_CPU)
             for predicate, switch in _first_switches(graph_def).items() if device_type != "GPU"]
    return (*found, *_calls(graph_def))


def nodes_of(branches: Iterable[BranchEntry], graph_def: GraphDef) -> list[NodeDef]:
    """The nodes that entries name, of the graph as it was offered."""
    names = {branch.node for branch in branches}
    return [node for node in graph_def.node if node.name in names]


def _first_switches(graph_def: GraphDef) -> dict[str, NodeDef]:
    """Predicate -> its first Switch, or the one that switches itself, which has the conditional's name. Those of loops
    are left out."""
    nodes = {node.name: node for node in graph_def.node}

    def truth_of(tensor: str) -> str:
        while (producer := nodes.get(producer_of(tensor))) is not None and producer.op == "Identity":
            tensor = producer.input[0]
        return canonical_tensor(tensor)

    found: dict[str, NodeDef] = {}
    for node in graph_def.node:
        predicate = truth_of(node.input[1]) if node.op in SWITCHES else ""
        names = predicate not in found or canonical_tensor(node.input[0]) == predicate
        if predicate and names and nodes[producer_of(predicate)].op != _ENDS_LOOP:
            found[predicate] = node
    return found


def _calls(graph_def: GraphDef) -> Iterator[BranchEntry]:
    for node in graph_def.node:
        if node.op in CONDITIONALS:
            yield BranchEntry(_users_name(node), node.name, canonical_tensor(node.input[0]),
                              f"{node.op} calls functions, which TensorFlow did not make a part of this graph")


def _users_name(node: NodeDef) -> str:
    return _LOWERED.sub("", origin(node)[0])


def _node(switch: NodeDef, names: Container[str]) -> str:
    """TensorFlow leaves a node by the conditional's name, of which it knows the line, where it made switches of it."""
    return name if (name := _users_name(switch)) in names else switch.name
