"""The stitching scheme of every value and every edge inside a kernel (AStitch section 3.1, Table 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme


@dataclass(frozen=True)
class Edge:
    """A value that one node of a kernel hands to another, how, and what decided that, in words."""

    value: Node
    user: Node
    scheme: Scheme
    why: str


def value_schemes(schedule: KernelSchedule) -> dict[Node, Scheme]:
    """How each value that one node of the pattern hands to another gets there: through registers (local), through
    memory of the block (regional): staged rows that do not fit registers, and reductions that several warps share;
    through memory of all blocks of a cluster: reductions that these share; from one group to the next through device
    memory (global)."""
    if schedule.groups:
        return _group_schemes(schedule)
    staged = {s.node: s.scheme for s in schedule.staged}
    schemes: dict[Node, Scheme] = {}
    for node in schedule.pattern.nodes:
        for operand in node.operands:
            if operand in staged:
                schemes[operand] = staged[operand]
            elif schedule.pattern.holds(operand):
                schemes[operand] = _reduced(schedule) if operand.category is Category.REDUCTION else Scheme.LOCAL
    return schemes


def _reduced(schedule: KernelSchedule) -> Scheme:
    """Where the threads that share a reduction combine their parts."""
    if schedule.mapping.cluster and schedule.matmul is None:
        return Scheme.CLUSTER
    return Scheme.REGIONAL if _shared_by_warps(schedule) else Scheme.LOCAL


def _group_schemes(schedule: KernelSchedule) -> dict[Node, Scheme]:
    groups = [group for together in schedule.groups for group in together]
    schemes = {node: scheme for group in groups for node, scheme in value_schemes(group).items()}
    home = {node: i for i, group in enumerate(groups) for node in group.pattern.nodes}
    for i, group in enumerate(groups):
        for node in group.pattern.reads():
            if home.get(node, i) != i:
                schemes |= dict.fromkeys(_in_memory_as(node), Scheme.GLOBAL)
    return schemes


def edges_of(schedule: KernelSchedule) -> Iterator[Edge]:
    """As value_schemes, for each user of a value, and why."""
    for group in [group for together in schedule.groups for group in together] or [schedule]:
        schemes = value_schemes(group)
        for user in group.pattern.nodes:
            for value in dict.fromkeys(user.operands):
                if group.pattern.holds(value):
                    yield Edge(value, user, schemes[value], _why(group, value, schemes[value]))
                elif schedule.pattern.holds(value):
                    yield Edge(value, user, Scheme.GLOBAL, "blocks of another group need it, behind a grid barrier")


def _why(schedule: KernelSchedule, value: Node, scheme: Scheme) -> str:
    place = "registers" if scheme is Scheme.LOCAL else "memory of the block"
    if any(value is staged.node for staged in schedule.staged):
        if value.type.numel == schedule.domain.rows:
            return "a thread of the block computes it for each row, and all threads of the row read it"
        return f"staged in {place} until a later pass over the row"
    if value.category is not Category.REDUCTION:
        return "the thread that computes it uses it"
    if schedule.mapping.cluster and schedule.matmul is None:
        return "each warp combines its part in registers, then sends it to the blocks of the cluster"
    if schedule.mapping.row_blocks > 1:
        return f"each block combines its part in {place}, then blocks combine theirs in device memory"
    if schedule.mapping.threads == 1:
        return "one thread reduces it and uses it"
    return f"its threads combine it in {place}"


def independent_parts(pattern: Pattern) -> list[list[Node]]:
    """Parts of a pattern that hand each other nothing, in the order of its nodes: one, unless ops are packed."""
    members = set(pattern.nodes)
    graph = nx.Graph((node, operand) for node in pattern.nodes for operand in node.operands if operand in members)
    graph.add_nodes_from(pattern.nodes)
    part = {node: i for i, nodes in enumerate(nx.connected_components(graph)) for node in nodes}
    found: dict[int, list[Node]] = {}
    for node in pattern.nodes:
        found.setdefault(part[node], []).append(node)
    return list(found.values())


def _in_memory_as(node: Node) -> Iterator[Node]:
    """The node, and what lies in memory as it does."""
    yield node
    while node.kind is OpKind.RESHAPE:
        node = node.operands[0]
        yield node


def _shared_by_warps(schedule: KernelSchedule) -> bool:
    m = schedule.mapping
    return m.threads > m.row_threads if m.columns else m.row_threads > m.warp
