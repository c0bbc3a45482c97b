"""From a static region graph to a stitch plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import networkx as nx

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_attrs import AssignAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.text_format import structural_key
from tf_stitch.planning import ilp_solver
from tf_stitch.planning.candidates import Region, TimeOf, grow
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.legality import contracted_graph
from tf_stitch.planning.stitch_plan import SolverReport, StitchPlan, delivered, free_nodes, make_pattern, plannable


@dataclass(frozen=True)
class PlanOptions:
    """solver is "ilp" or "greedy"; seconds limits one integer program."""

    solver: str = "ilp"
    seconds: float = 2.0


def plan_region(graph: TensorGraph, time_of: TimeOf, options: PlanOptions | None = None) -> StitchPlan:
    """Covers every node that has work in it by patterns, each one kernel.

    Connected parts are planned apart, and parts of equal structure once (F13). A product is a pattern of its own, and
    a pattern never spans one: it holds nodes of one level only, with equally many products before them, so that no
    path can leave it and come back.

    Raises:
        ScheduleError: a node that no schedule rule takes even alone.
    """
    options = options or PlanOptions()
    nodes = graph.nodes()
    free, users, wanted = free_nodes(nodes), users_of(nodes), frozenset(delivered(graph))
    plans: dict[str, tuple[list[tuple[int, ...]], SolverReport]] = {}
    chosen: list[frozenset[Node]] = []
    reports: list[SolverReport] = []
    work = plannable(graph, free)
    for part in _components(nodes, work, free):
        if part[0].category is Category.CONTRACTION:
            chosen.append(frozenset(part))
            continue
        key = structural_key(part, make_pattern(part, users, wanted, free).outputs)
        if key not in plans:
            plans[key] = _plan_part(Region(part, users, wanted, free, time_of), options)
        positions, report = plans[key]
        chosen += [frozenset(part[i] for i in group) for group in positions]
        reports.append(report)
    position = {n: i for i, n in enumerate(work)}
    patterns = [make_pattern(sorted(c, key=lambda n: position[n]), users, wanted, free)
                for c in _in_order(chosen, graph, work)]
    return StitchPlan(graph, patterns, _merge_reports(reports), free)


def _plan_part(region: Region, options: PlanOptions) -> tuple[list[tuple[int, ...]], SolverReport]:
    for node in region.nodes:
        if region.time((node,)) is None:
            raise ScheduleError(f"no schedule rule takes {node.kind.value} on {node.type}", node.loc)
    candidates = grow(region)
    gains = [g if (g := region.gain(c)) is not None else 0.0 for c in candidates]
    greedy = solve_greedily(candidates, gains, region.nodes)
    best = greedy
    if options.solver == "ilp" and len(candidates) > 1:
        best = ilp_solver.solve(candidates, gains, region.nodes, options.seconds) or greedy
    elif len(candidates) <= 1:
        best = replace(greedy, status="optimal", bound=greedy.objective)
    covered = {n for j in best.chosen for n in candidates[j]}
    groups = [candidates[j] for j in best.chosen] + [frozenset((n,)) for n in region.nodes if n not in covered]
    report = SolverReport(options.solver, best.status, best.objective, best.bound, greedy.objective, len(candidates),
                          best.cuts)
    return [tuple(sorted(region.position[n] for n in g)) for g in groups], report


def _components(nodes: Sequence[Node], work: Sequence[Node], free: frozenset[Node]) -> list[list[Node]]:
    """Parts of one level connected by values, or by reading the same tensor; each in graph order. A product is a part
    of its own.

    Args:
        nodes: of the whole graph, operands first.
        work: those that need a kernel or a library call.
    """
    level: dict[Node, int] = {}
    for node in nodes:
        level[node] = max((level[o] + (o.category is Category.CONTRACTION) for o in node.operands), default=0)
    links = nx.Graph()
    links.add_nodes_from(work)
    members = {n for n in work if n.category is not Category.CONTRACTION}
    for node in members:
        for operand in node.operands:
            if operand in members and level[operand] == level[node]:
                links.add_edge(operand, node)
            elif operand not in free and operand.type.numel > 1:
                links.add_edge((operand, level[node]), node)  # beside those of its level that read it too
    position = {n: i for i, n in enumerate(work)}
    parts = [sorted((n for n in part if n in position), key=lambda n: position[n])
             for part in nx.connected_components(links)]
    return sorted((p for p in parts if p), key=lambda p: position[p[0]])


def _in_order(patterns: Sequence[frozenset[Node]], graph: TensorGraph,
              work: Sequence[Node]) -> list[frozenset[Node]]:
    """Patterns so that each comes after what it reads, and the update of a variable after its readers where that is
    possible; ties by graph order."""
    position = {n: i for i, n in enumerate(work)}
    data = contracted_graph(patterns, work)
    ordered = data.copy()
    ordered.add_edges_from(_reads_before_updates(patterns, graph))
    best = ordered if nx.is_directed_acyclic_graph(ordered) else data
    order = nx.lexicographical_topological_sort(best, key=lambda j: min(position[n] for n in patterns[j]))
    return [patterns[j] for j in order]


def _reads_before_updates(patterns: Sequence[frozenset[Node]], graph: TensorGraph) -> list[tuple[int, int]]:
    """(pattern that reads a variable, pattern that computes its new value): in this order it is updated in place."""
    owner = {n: j for j, pattern in enumerate(patterns) for n in pattern}
    nodes = graph.nodes()
    readers: dict[Node, set[int]] = {}  # of each node, through free ones
    for node in reversed(nodes):
        for operand in node.operands:
            readers.setdefault(operand, set()).update({owner[node]} if node in owner else readers.get(node, ()))
    variables = {n.attrs.handle: n for n in nodes if isinstance(n.attrs, VariableAttrs)}
    edges: list[tuple[int, int]] = []
    for _, node in graph.outputs:
        if isinstance(node.attrs, AssignAttrs) and node.attrs.handle in variables and node.operands[0] in owner:
            writer = owner[node.operands[0]]
            edges += [(j, writer) for j in sorted(readers.get(variables[node.attrs.handle], ())) if j != writer]
    return edges


def _merge_reports(reports: Sequence[SolverReport]) -> SolverReport | None:
    if not reports:
        return None
    worst = next((s for s in ("greedy", "feasible") if any(r.status == s for r in reports)), "optimal")
    return SolverReport(reports[0].solver, worst, sum(r.objective_us for r in reports),
                        sum(r.bound_us for r in reports), sum(r.greedy_us for r in reports),
                        sum(r.candidates for r in reports), sum(r.cycle_cuts for r in reports))


