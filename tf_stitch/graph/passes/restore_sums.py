"""Makes sums again of the temporary variables that TensorFlow's memory optimizer puts in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorflow import make_ndarray
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult

_SUM = "DestroyTemporaryVariable"


@dataclass(frozen=True)
class RestoreSums:
    """Where the optimizer predicts that a graph takes most of a device's memory (of a CPU's it assumes 256 MB), AddN
    becomes a variable that its terms are added to one after the other (SchedulingPass in
    core/grappler/optimizers/memory_optimizer.cc). No region holds a variable that lives for an instant, and a loop with
    one stays a loop. A region holds a sum, and none of its terms in memory.
    """

    name: str = "restore_sums"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not any(node.op == _SUM for node in state.graph_def.node):
            return PassResult(state, False)
        graph_def = state.copy_graph()
        defs = {node.name: node for node in graph_def.node}
        gone = {name for node in graph_def.node if node.op == _SUM for name in _restored(node, defs, state.preserved)}
        kept = [node for node in graph_def.node if node.name not in gone]
        if _reads(kept) & gone:  # somebody else waits for a part of one
            return PassResult(state, False)
        after = GraphDef()
        after.CopyFrom(graph_def)
        del after.node[:]
        after.node.extend(kept)
        return PassResult(state.with_graph(after), bool(gone))


def _restored(node: NodeDef, defs: Mapping[str, NodeDef], preserved: frozenset[str]) -> Iterator[str]:
    """Makes a sum of a node, in place, if it is the end of one; names of the nodes that it does without."""
    waits = [producer_of(control) for control in node.input[1:]]
    adds = [defs[name] for name in waits if defs[name].op == "AssignAdd" and defs[name].input[0] == node.input[0]]
    start = defs[producer_of(node.input[0])]
    if start.op != "Assign" or not adds:
        return
    variable, zeros = (defs[producer_of(start.input[i])] for i in range(2))
    parts = [variable, zeros, start, *adds]
    if variable.op != "TemporaryVariable" or not _is_zero(zeros) or preserved & {part.name for part in parts}:
        return
    own = {part.name for part in parts}
    controls = dict.fromkeys(source for part in (node, *parts) for source in part.input
                             if source.startswith("^") and source[1:] not in own)
    node.op = "AddN"
    node.input[:] = [*(add.input[1] for add in adds), *controls]
    node.attr["N"].i = len(adds)
    del node.attr["var_name"]
    yield from own


def _is_zero(node: NodeDef) -> bool:
    """Whether these are zeros, perhaps folded since."""
    return node.op == "ZerosLike" or (node.op == "Const" and not make_ndarray(node.attr["value"].tensor).any())


def _reads(nodes: list[NodeDef]) -> set[str]:
    return {producer_of(source) for node in nodes for source in node.input}
