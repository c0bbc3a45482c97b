"""Removes redundant control inputs from constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import cache

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import BRANCHES_OR_LOOPS
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult

_AS_CONSTANT = frozenset({"DataFormatDimMap", "DataFormatVecPermute"})
"""What the layout optimizer makes of constants."""
_SHAPES = ("Shape", "ShapeN", "Rank", "Size")
_OF_SIZES = frozenset({"AddV2", "Cast", "ConcatV2", "ExpandDims", "Fill", "GatherV2", "Identity", "Maximum", "Minimum",
                       "Mul", "Pack", "Prod", "Reshape", "Slice", "Squeeze", "StridedSlice", "Sub"})
"""What shape arithmetic consists of, where it begins with shapes: no region holds it."""
_DO_NOTHING = frozenset({"EmptyTensorList", "Identity", "NoOp", "TensorListFromTensor", "TensorListReserve"})
_MOST_EDGES = 1 << 16


@dataclass(frozen=True)
class RelaxConstants:
    """Moves the control inputs of constants to those who use them: constant folding leaves them there, and they keep
    regions apart that read a constant alike. Who waits for a shape, or for what is computed of shapes alone, waits for
    the tensor instead, as no region holds either. So does, where a loop was unrolled, who waits for what it leaves:
    lists that nobody reads, and nodes in front of it and behind it that only wait, and would keep its steps apart from
    what follows. What came after what still does, where it does not read that anyway. Nodes behind a branch or a loop,
    where control inputs tell a constant when it is dead, are left alone.
    """

    name: str = "relax_constants"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        nodes, maybe_dead = state.graph_def.node, _behind_branches(state.graph_def)
        waits = _waits(state, maybe_dead)
        left = _left_behind(state, maybe_dead)
        sizes = _sizes(state.graph_def, maybe_dead)
        passed = {node.name: [f"^{producer_of(source)}" for source in node.input] for node in nodes
                  if node.name in left or node.name in sizes}
        for_passed = any(s.startswith("^") and s[1:] in passed for node in nodes for s in node.input)
        if not (waits or for_passed):
            return PassResult(state, False)

        @cache
        def behind(control: str) -> tuple[str, ...]:
            """What a wait for a node means: for a constant, what that waits for; for a shape, what it is of."""
            inner = waits.get(control[1:], passed.get(control[1:]))
            return (control,) if inner is None else tuple(dict.fromkeys(b for c in inner for b in behind(c)))

        graph_def = state.copy_graph()
        for node in graph_def.node:
            if node.name in waits:
                node.input[:] = [source for source in node.input if not source.startswith("^")]
            else:
                node.input[:] = _inputs(node, waits, passed, behind)
        kept_nodes = [node for node in graph_def.node if node.name not in left]
        del graph_def.node[:]
        graph_def.node.extend(kept_nodes)
        return PassResult(state.with_graph(graph_def), True)


def _inputs(node: NodeDef, waits: Container[str], passed: Mapping[str, list[str]],
            behind: Callable[[str], tuple[str, ...]]) -> list[str]:
    """The inputs of a node that waits for what stands behind constants and what is passed over.

    Args:
        waits: constants whose waits go.
        passed: nodes that nobody waits for any more.
        behind: what a wait for one of either means.
    """
    kept = [source for source in node.input if not (source.startswith("^") and source[1:] in passed)]
    moved = [control for source in node.input
             if (name := producer_of(source)) in waits or (source.startswith("^") and name in passed)
             for control in behind(f"^{name}")]
    read = {producer_of(source) for source in node.input if not source.startswith("^")}
    present = {*kept, *(control for name in read & passed.keys() for control in behind(f"^{name}"))}
    return [*kept, *(c for c in dict.fromkeys(moved) if c not in present)]


def _left_behind(state: GraphState, maybe_dead: set[str]) -> set[str]:
    """Nodes that others wait for and nobody reads, of ops that do nothing; none where that would make many edges."""
    if not (any(branch.reason is None for branch in state.branches)
            or any(loop.steps is not None for loop in state.loops)):
        return set()
    nodes = state.graph_def.node
    read = {producer_of(source) for node in nodes for source in node.input if not source.startswith("^")}
    followers = Counter(source[1:] for node in nodes for source in node.input if source.startswith("^"))
    left = [node for node in nodes if node.op in _DO_NOTHING and node.name in followers
            and node.name not in read and node.name not in maybe_dead and node.name not in state.preserved]
    edges = sum(len(node.input) * followers[node.name] for node in left)
    return {node.name for node in left} if edges <= _MOST_EDGES else set()


def _sizes(graph_def: GraphDef, maybe_dead: set[str]) -> set[str]:
    """Shapes, and what is computed of them and of constants alone."""
    constants = {node.name for node in graph_def.node if node.op == "Const"}
    shapes = {node.name for node in graph_def.node if node.op in _SHAPES and node.name not in maybe_dead}
    return set(_computed_of(graph_def, shapes, _OF_SIZES, constants, maybe_dead))


def _computed_of(graph_def: GraphDef, roots: set[str], ops: frozenset[str], known: set[str], maybe_dead: set[str]
                 ) -> list[str]:
    """`roots`, and what some ops compute of them and of what is known besides alone, each behind its inputs."""
    data = {node.name: [producer_of(source) for source in node.input if not source.startswith("^")]
            for node in graph_def.node}
    followers: dict[str, list[str]] = {}
    for node in graph_def.node:
        if node.op in ops and node.name not in maybe_dead:
            for name in data[node.name]:
                followers.setdefault(name, []).append(node.name)
    found = dict.fromkeys(roots)
    pending = list(roots)
    while pending:
        for name in followers.get(pending.pop(), ()):
            if name not in found and all(source in found or source in known for source in data[name]):
                found[name] = None
                pending.append(name)
    return list(found)


def _behind_branches(graph_def: GraphDef) -> set[str]:
    """Nodes that are part of a branch or a loop, or come after one."""
    behind = {node.name for node in graph_def.node if node.op in BRANCHES_OR_LOOPS}
    followers: dict[str, list[str]] = {}
    for node in graph_def.node if behind else ():
        for source in node.input:
            followers.setdefault(producer_of(source), []).append(node.name)
    stack = list(behind)
    while stack:
        new = set(followers.get(stack.pop(), ())) - behind
        behind |= new
        stack.extend(new)
    return behind


def _waits(state: GraphState, maybe_dead: set[str]) -> dict[str, list[str]]:
    """Control inputs of constants, and of what is computed of them alone: what such a node waits for. What is fetched
    keeps them: who fetches it is no node that could wait instead."""
    nodes = {node.name: node for node in state.graph_def.node}
    apart = maybe_dead | state.preserved
    constants = {name for name, node in nodes.items() if node.op == "Const" and name not in apart}
    waits: dict[str, list[str]] = {}
    for name in _computed_of(state.graph_def, constants, _OF_SIZES | _AS_CONSTANT, set(), apart):
        waits[name] = [source if source.startswith("^") else f"^{producer_of(source)}" for source in nodes[name].input
                       if source.startswith("^") or waits[producer_of(source)]]
    return {name: inputs for name, inputs in waits.items() if inputs}
