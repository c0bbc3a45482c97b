"""Makes an executor that runs nodes one by one update variables as soon as their gradients are there, and nobody holds
their old values any more. Left alone it may compute the gradients of a whole model before it applies the first; and an
update while the old value is held gives the variable other memory: after that every CUDA graph has to be told."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import BRANCHES_OR_LOOPS
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.variable_ops import writes_variables
from tf_stitch.planning.dependence import representatives
from tf_stitch.planning.part import bits

FEW = 4
"""Ends (nodes that nobody waits for) that a node may lead to and still belong to an update: those of a variable and of
its optimizer's state."""


def update_early(nodes: Sequence[NodeDef], one_by_one: bool = True) -> None:
    """Adds control inputs, if there are updates among the nodes, and no loops.

    Args:
        nodes: without cycles but for loops; best in an order in which they could run.
        one_by_one: leave one order of the nodes that have inputs. Else updates wait for who holds the old value, and
            nothing else is asked for: an executor with several threads takes what is ready.
    """
    if any(node.op in BRANCHES_OR_LOOPS for node in nodes):
        return
    defs = {node.name: node for node in nodes}
    inputs = {name: [p for p in map(producer_of, node.input) if p in defs] for name, node in defs.items()}
    order = _operands_first(inputs)
    home = _updates(order, inputs, {name for name in order if writes_variables(defs[name])})
    if not home:
        return
    holders = _holders(defs, inputs, home)
    if one_by_one:
        chain = [name for name in _sorted(order, inputs, home, holders) if defs[name].input]
        edges = list(itertools.pairwise(chain))
    else:
        edges = [(holder, name) for name, update in home.items() if writes_variables(defs[name])
                 for holder in dict.fromkeys(holders.get(update, ()))]
    for before, after in edges:
        if before not in inputs[after]:
            defs[after].input.append(f"^{before}")


def _holders(defs: Mapping[str, NodeDef], inputs: Mapping[str, Sequence[str]], home: Mapping[str, int]
             ) -> dict[int, list[str]]:
    """For each update what uses the old values of its variables, such as the matmul that hands a gradient on."""
    reads: dict[str, list[str]] = {}  # by handle
    users: dict[str, list[str]] = {}
    for name, node in defs.items():
        if node.op == "ReadVariableOp" and name not in home:
            reads.setdefault(node.input[0], []).append(name)
        for before in inputs[name]:
            users.setdefault(before, []).append(name)
    found: dict[int, list[str]] = {}
    for name, update in home.items():
        if writes_variables(defs[name]):
            held = [user for read in reads.get(defs[name].input[0], ()) for user in users.get(read, ())]
            found.setdefault(update, []).extend(user for user in held if user not in home)
    return found


def _operands_first(inputs: Mapping[str, Sequence[str]]) -> list[str]:
    found: dict[str, None] = {}
    for root in inputs:
        stack = [root]
        while stack:
            missing = [p for p in inputs[stack[-1]] if p not in found]
            if missing:
                stack += missing
            else:
                found[stack.pop()] = None
    return list(found)


def _updates(order: Sequence[str], inputs: dict[str, list[str]], writers: set[str]) -> dict[str, int]:
    """The update that each node serves alone; nodes that serve more, or a result, are left out."""
    ends: dict[str, int] = {}  # as bits
    names: list[str] = []
    for name in reversed(order):
        if name not in ends:
            ends[name] = 1 << len(names)
            names.append(name)
        for before in inputs[name]:
            ends[before] = ends.get(before, 0) | ends[name]
    few = {name: list(bits(mask)) for name, mask in ends.items() if mask.bit_count() <= FEW}
    own = {name: found for name, found in few.items() if all(names[i] in writers for i in found)}
    update = representatives(own.values())
    return {name: update[found[0]] for name, found in own.items()}


def _sorted(order: Sequence[str], inputs: dict[str, list[str]], home: dict[str, int],
            holders: Mapping[int, Sequence[str]]) -> list[str]:
    """An order in which each update runs as soon as all that it needs from elsewhere is there, and its holders have
    run."""
    members: dict[int, list[str]] = {}
    for name in order:
        if name in home:
            members.setdefault(home[name], []).append(name)
    place = {name: i for i, name in enumerate(order)}
    after: dict[int, list[int]] = {}  # place of the last node that an update needs -> updates
    for update, nodes in members.items():
        needed = [place[p] for name in nodes for p in inputs[name] if p not in home]
        needed += [place[holder] for holder in holders.get(update, ())]
        after.setdefault(max(needed, default=-1), []).append(update)
    found: list[str] = []
    for i in range(-1, len(order)):
        if i >= 0 and order[i] not in home:
            found.append(order[i])
        for update in after.get(i, ()):
            found += members[update]
    return found
