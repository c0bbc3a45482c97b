"""Values that the kernels of a plan compute again instead of reading what another kernel wrote.

A batch normalization reads its argument once for sums and once more to scale it, and so does its gradient. No kernel
spans both, for the sums are of everything. But where the argument is a convolution's result and a bias, that result
lies in memory anyway: every kernel adds the bias itself, and none writes the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.ir.copies import Copies, with_copies
from tf_stitch.ir.graph import Node, users_of
from tf_stitch.ir.op_kinds import CALLED, Category, OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.recompute import LARGE, SMALL
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.plan_groups import in_order, plan_of
from tf_stitch.planning.stitch_plan import StitchPlan

_REPEATED_MOVEMENT = (OpKind.RESHAPE, OpKind.BROADCAST)


@dataclass(frozen=True)
class _Way:
    """How a value is computed.

    Attributes:
        nodes: what computes it.
        sources: what these read from memory.
    """

    nodes: frozenset[Node]
    sources: tuple[Node, ...]


@dataclass(frozen=True)
class PrivateValues:
    """Lets kernels compute values of others, where together they take less time.

    Attributes:
        us_of: microseconds of a pattern as one kernel; None if it cannot be one.
        cycles_per_byte: operations that are worth a byte not moved twice.
    """

    us_of: Callable[[Pattern], float | None]
    cycles_per_byte: int
    name: str = "private_values"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        plan = with_private_values(kernels.plan, self.us_of, self.cycles_per_byte)
        return PassResult(replace(kernels, plan=plan), modified=plan is not kernels.plan)


def with_private_values(plan: StitchPlan, us_of: Callable[[Pattern], float | None], cycles_per_byte: int) -> StitchPlan:
    """The plan with those values computed by every kernel that wants one of which fewer bytes are moved then, an eighth
    of the value at least. Arithmetic may take more time than bytes: values whose kernels take longer then, together,
    are left out, if without them all kernels take less.

    Args:
        us_of: microseconds of a pattern as one kernel; None if it cannot be one.
        cycles_per_byte: operations that are worth a byte not moved twice.
    """
    home = {node: i for i, pattern in enumerate(plan.patterns) for node in pattern.nodes}
    users = users_of(plan.graph.nodes())
    found = _private_values(plan, home, users, cycles_per_byte)
    best, least = plan, 0.0
    while found:
        readers = {value: {home[user] for user in users[value]} - {home[value]} for value in found}
        changed, patterns = _with_copies(plan, found, readers, users)
        touched = dict.fromkeys(i for value, some in readers.items() for i in (home[value], *sorted(some)))
        lost = {i: _lost_us(us_of(plan.patterns[i]), us_of(patterns[i]) if i in patterns else 0.0) for i in touched}
        total = sum(lost.values())
        if total <= least:
            best, least = changed, total
        elif best is not plan:
            break
        kept = {value: way for value, way in found.items()
                if sum(lost[i] for i in (home[value], *readers[value])) <= 0}
        if len(kept) == len(found):
            break
        found = kept
    return best


def _lost_us(before: float | None, after: float | None) -> float:
    return math.inf if before is None or after is None else after - before


def _private_values(plan: StitchPlan, home: Mapping[Node, int], users: Mapping[Node, Sequence[Node]],
                    cycles_per_byte: int) -> dict[Node, _Way]:
    wanted = frozenset(live_out(plan.graph))
    elements = [not any(node.category in CALLED for node in pattern.nodes) for pattern in plan.patterns]
    found: dict[Node, _Way] = {}
    for pattern in (pattern for pattern, is_kernel in zip(plan.patterns, elements, strict=True) if is_kernel):
        for value in pattern.outputs:
            if value in wanted or value.type.typical_bytes < LARGE \
                    or not all(user in home and elements[home[user]] for user in users[value]):
                continue
            way = _way_to(value, pattern, found, cycles_per_byte)
            others = {home[user]: plan.patterns[home[user]] for user in users[value] if not pattern.holds(user)}
            if way is not None and _saved_bytes(value, way, others.values(), found) * SMALL >= value.type.typical_bytes:
                found[value] = way
    return found


def _way_to(value: Node, pattern: Pattern, private: Mapping[Node, _Way], cycles_per_byte: int) -> _Way | None:
    """How a pattern computes a value of what lies in memory; None where that is no cheap arithmetic."""
    nodes, seen, read, pending = set[Node](), set[Node](), set[Node](), [value]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in pattern.free:
            pending += node.operands
        elif not pattern.holds(node):
            read.add(node)
        elif node.category is Category.ELEMENTWISE or node.kind in _REPEATED_MOVEMENT:
            nodes.add(node)
            pending += node.operands
        else:
            return None
    for node in read & private.keys():
        nodes |= private[node].nodes
    if sum(node.info.cost for node in nodes) > cycles_per_byte * value.type.dtype.size:
        return None
    return _Way(frozenset(nodes), _in_memory(read, private))


def _in_memory(values: Collection[Node], private: Mapping[Node, _Way]) -> tuple[Node, ...]:
    """What has to be read for values."""
    return tuple(dict.fromkeys(source for value in values for source in
                               (private[value].sources if value in private else (value,))))


def _saved_bytes(value: Node, way: _Way, readers: Iterable[Pattern], private: Mapping[Node, _Way]) -> int:
    """By not writing and reading a value, less what is read in its place."""
    own = saved = value.type.typical_bytes
    for reader in readers:
        reads = _in_memory(reader.reads(), private)
        saved += own - sum(source.type.typical_bytes for source in way.sources if source not in reads)
    return saved


def _with_copies(plan: StitchPlan, found: Mapping[Node, _Way], readers: Mapping[Node, Collection[int]],
                 users: Mapping[Node, Sequence[Node]]) -> tuple[StitchPlan, dict[int, Pattern]]:
    """The plan with these values computed by their readers, and what each pattern has become; those are gone that wrote
    no more than such values.

    Args:
        readers: numbers of patterns.
    """
    reading = dict.fromkeys(i for some in readers.values() for i in some)
    chosen = []
    for i in reading:
        mine = [value for value in found if i in readers[value]]
        own = frozenset(user for value in mine for user in users[value]).intersection(plan.patterns[i].nodes)
        chosen.append(Copies(frozenset[Node]().union(*(found[value].nodes for value in mine)), own))
    graph, new = with_copies(plan.graph, chosen)
    nodes = graph.nodes()
    group_of = {new[node]: i for i, pattern in enumerate(plan.patterns) for node in pattern.nodes}
    planned, later = set(new.values()), users_of(nodes)
    for node in reversed(nodes):
        if node not in planned:  # a copy, which one pattern reads
            group_of[node] = group_of[later[node][0]]
    groups: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        if node in group_of:
            groups.setdefault(group_of[node], []).append(place)
    made = plan_of(graph, list(groups.values()), plan.solver, plan.libraries)
    patterns = dict(zip(groups, made.patterns, strict=True))
    return in_order(made), patterns
