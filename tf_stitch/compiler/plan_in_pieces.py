"""A plan in which a matmul of wide rows, and all that reads them, run piece by piece: a loss without its logits in
memory.

The logits of a language model have an element for each word in each row. A loss and its gradient are kernels that take
each row by itself. What they leave is small, or comes from matmuls of the gradient. Results of rows are put beside each
other. The gradient of weights is a sum over rows: pieces add theirs up one after the other, in float32 at least.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tf_stitch.compiler.row_nodes import Piece, RowNodes, is_total
from tf_stitch.errors import ScheduleError, TypeRuleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.plan_groups import in_order, plan_with
from tf_stitch.planning.stitch_plan import StitchPlan

WIDE = 4
"""Times as many elements as it is made of that a matmul has at least, for each row."""
MOST_PATTERNS = 12
"""That run in pieces: a loss has some five."""
MOST_MATMULS = 3
"""That are tried: the largest, for the sake of time."""


def wide_matmuls(plan: StitchPlan) -> list[Node]:
    """The largest matmuls whose rows are much wider than those that they are made of, by their sizes."""
    found = [node for pattern in plan.patterns for node in pattern.nodes
             if node.kind is OpKind.DOT and node.type.rank == 2 and not is_total(node)
             and node.type.numel >= WIDE * node.operands[0].type.numel]
    return sorted(found, key=lambda node: -int(node.type.nbytes))[:MOST_MATMULS]


def plan_in_pieces(plan: StitchPlan, matmul: Node, pieces: int) -> StitchPlan:
    """The plan in which a matmul and what reads its wide rows run in pieces.

    Raises:
        ScheduleError: that cannot be; the message says why.
    """
    try:
        return _InPieces(plan, matmul, pieces).made()
    except (TypeRuleError, ValueError) as error:
        raise ScheduleError(f"{matmul}: no plan in pieces: {error}", matmul.loc) from error


@dataclass(frozen=True)
class _Patterns:
    """Patterns that run in pieces, in order.

    Attributes:
        pieced: all nodes that are made of the matmul.
        wide: values of wide rows.
        outputs: what the patterns leave in memory, `wide` included.
    """

    patterns: tuple[Pattern, ...]
    pieced: frozenset[Node]
    wide: frozenset[Node]
    outputs: frozenset[Node]


class _InPieces:
    def __init__(self, plan: StitchPlan, matmul: Node, pieces: int) -> None:
        self._plan, self._pieces = plan, pieces
        self._found = _patterns_of(plan, matmul)
        self._groups: list[list[Node]] = []
        self._parts: dict[Node, list[Node]] = {}
        self._sums: dict[Node, Node] = {}
        self._after: dict[Node, Node] = {}
        self._last: Node | None = None

    def made(self) -> StitchPlan:
        for number in range(self._pieces):
            piece = Piece(number, self._pieces)
            for pattern in self._found.patterns:
                self._run(pattern, piece)
        rest, given = self._rest(), self._plan.graph
        now = {node: self._whole(node) for node in self._found.outputs & rest}
        for node in given.nodes():
            if node in rest and node not in now:
                now[node] = with_operands(node, tuple(now[o] for o in node.operands))
        graph = TensorGraph(given.name, [(key, now[node]) for key, node in given.outputs], given.unread)
        own = set(self._found.patterns)
        groups = [[now.get(node, node) for node in pattern.nodes] for pattern in self._plan.patterns
                  if pattern not in own]  # what the pieces alone read stays
        graph.after.update(self._after)
        return in_order(plan_with(graph, [*groups, *self._groups], self._plan.solver, self._plan.libraries))

    def _run(self, pattern: Pattern, piece: Piece) -> None:
        """Makes the nodes of a pattern for a piece. It comes after the pattern before, also that of the piece before:
        no two pieces are in memory."""
        nodes = RowNodes(pattern, piece, self._found.pieced)
        self._groups.append(nodes.nodes)
        for output in pattern.outputs:
            if is_total(output):
                continue
            source = _of_as_many_pieces(output, pattern, piece.of)
            piece.there[source] = made = nodes.rows(source)
            self._parts.setdefault(output, []).append(made)
            self._take_turn(made)
        for total in filter(is_total, pattern.outputs):
            in_call = total.kind is OpKind.DOT and len(pattern.outputs) == 1
            self._add_up(total, nodes.partial(total), in_call, piece)

    def _take_turn(self, written: Node) -> None:
        if self._last is not None:
            self._after[written] = self._last
        self._last = written

    def _add_up(self, total: Node, partial: Node, in_call: bool, piece: Piece) -> None:
        """Adds the sum over a piece to those before: in the matmul's own call, where that is as exact."""
        b, before, dtype = Builder(total.loc), self._sums.get(total), total.type.dtype
        in_call = in_call and dtype.compute is dtype
        if before is None or not in_call:
            self._take_turn(partial)
        if before is None:
            self._sums[total] = partial
            return
        added = [b.cast(term, dtype.compute) for term in (before, partial)]
        group = [node for node in added if node not in (before, partial)]
        group.append(b.add(added[0], added[1]))
        if piece.number == piece.of - 1 and dtype.compute is not dtype:
            group.append(b.cast(group[-1], dtype))
        self._sums[total] = group[-1]
        self._take_turn(group[-1])
        if in_call:
            self._groups[-1] += group
        else:
            self._groups.append(group)

    def _whole(self, node: Node) -> Node:
        """All rows of a result, or the sum over them."""
        if node in self._sums:
            return self._sums[node]
        b = Builder(node.loc)
        joined = b.concat(self._parts[node], 0)
        shaped = b.reshape(joined, node.type.shape)
        self._groups.append(list(dict.fromkeys((joined, shaped))))
        return shaped

    def _rest(self) -> set[Node]:
        """Nodes that others than the pieces compute or read.

        Raises:
            ScheduleError: wide rows are read, or what no memory holds.
        """
        found: set[Node] = set()
        pending = [*(node for _, node in self._plan.graph.outputs), *self._plan.graph.unread]
        own = {node for pattern in self._found.patterns for node in pattern.nodes}
        while pending:
            node = pending.pop()
            if node in found:
                continue
            found.add(node)
            if node not in own:
                pending += node.operands
            elif node not in self._found.outputs or node in self._found.wide:
                raise ScheduleError(f"{node}: others read it", node.loc)
        return found


def _of_as_many_pieces(node: Node, pattern: Pattern, pieces: int) -> Node:
    """A value, or what it is another shape of: a mean of rows is one of a few sums, each of a line of [2, rows / 2]."""
    while node.kind is OpKind.RESHAPE and node in pattern.nodes and node.type.rank and int(node.type.dims[0]) % pieces:
        node = node.operands[0]
    return node


def _patterns_of(plan: StitchPlan, matmul: Node) -> _Patterns:
    """A matmul's pattern, those that read wide rows made of it, and all between.

    Raises:
        ScheduleError: there are many.
    """
    made_by = {output: i for i, pattern in enumerate(plan.patterns) for output in pattern.outputs}
    needs = [{made_by[value] for value in pattern.reads() if value in made_by} for pattern in plan.patterns]
    pieced = _made_of(plan.graph, matmul)
    found, wide = set[int](), set[Node]()
    for i, pattern in enumerate(plan.patterns):
        if matmul in pattern.nodes or not wide.isdisjoint(pattern.reads()):
            found.add(i)
            wide |= {node for node in pattern.outputs if node in pieced and not is_total(node)
                     and 2 * node.type.numel >= matmul.type.numel}
    after = _reached(found, needs)
    users: list[set[int]] = [{j for j, before in enumerate(needs) if i in before} for i in range(len(needs))]
    before = _reached(found, users, backwards=True)
    chosen = [i for i in range(len(needs)) if i in found or (i in after and i in before)]
    if len(chosen) > MOST_PATTERNS:
        raise ScheduleError(f"{matmul}: {len(chosen)} patterns are made of its rows", matmul.loc)
    patterns = tuple(plan.patterns[i] for i in chosen)
    return _Patterns(patterns, pieced, frozenset(wide), frozenset(o for pattern in patterns for o in pattern.outputs))


def _made_of(graph: TensorGraph, node: Node) -> frozenset[Node]:
    found = {node}
    for one in graph.nodes():
        if not found.isdisjoint(one.operands):
            found.add(one)
    return frozenset(found)


def _reached(found: Collection[int], edges: Sequence[Collection[int]], backwards: bool = False) -> set[int]:
    """Patterns that an edge, or several in a row, lead to some.

    Args:
        edges: of each pattern; to patterns before it or, `backwards`, after it.
    """
    reached: set[int] = set()
    order = range(len(edges))
    for i in reversed(order) if backwards else order:
        if any(other in reached or other in found for other in edges[i]):
            reached.add(i)
    return reached
