"""Takes away the copies to the host and back that TensorFlow's memory optimizer puts between a value and who reads it
late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult

_OUT, _BACK = "_CopyFromGpuToHost", "_CopyFromHostToGpu"
_ASKED_FOR = "_swap_to_host"
"""Attribute of nodes whose inputs the user wants to be copied."""


@dataclass(frozen=True)
class UndoSwaps:
    """Where the optimizer predicts that a graph takes more memory than a GPU has, it copies values to the host and back
    (SwappingPass in core/grappler/optimizers/memory_optimizer.cc). It predicts what TensorFlow's ops take, which is
    more than kernels of a region do; and no region holds a copy, so that a step is cut into pieces, each of which keeps
    in memory what others read. Without copies it is one region, which is planned smaller if it has to be.
    """

    name: str = "undo_swaps"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not any(node.op == _BACK for node in state.graph_def.node):
            return PassResult(state, False)
        edit = GraphEdit(state)
        copies = _copies(edit)
        edit.gone |= copies.keys()
        edit.renamed |= {f"{name}:0": canonical_tensor(copy.tensor) for name, copy in copies.items()}
        for name in dict.fromkeys(user.name for copy in copies for user in edit.users.get(copy, ())):
            if name not in copies:
                edit.gone.add(name)
                edit.new.append(_without_copies(edit, name, copies))
        return PassResult(edit.applied() if copies else state, bool(copies))


@dataclass(frozen=True)
class _Copy:
    """To the host, or back.

    Attributes:
        tensor: what is copied, on the device.
        waits: names of the nodes that it waits for.
    """

    tensor: str
    waits: tuple[str, ...]


def _copies(edit: GraphEdit) -> dict[str, _Copy]:
    """By their names, those that no user has asked for, and of which nobody else reads what is on the host."""
    found: dict[str, _Copy] = {}
    for back in edit.order:
        out = edit.defs[producer_of(back.input[0])] if back.op == _BACK else None
        if out is None or out.op != _OUT or edit.state.preserved & {out.name, back.name}:
            continue
        on_host = [user for user in edit.users[out.name] if f"^{out.name}" not in user.input]
        if on_host == [back] and not any(_ASKED_FOR in user.attr for user in edit.users.get(back.name, ())):
            waits = tuple(map(producer_of, out.input))
            found[out.name] = _Copy(out.input[0], waits)
            found[back.name] = _Copy(out.input[0], (*waits, *map(producer_of, back.input[1:])))
    return found


def _without_copies(edit: GraphEdit, name: str, copies: Mapping[str, _Copy]) -> NodeDef:
    """A node that waits for no copy, but for what a copy waited for where its other inputs do not come after that
    anyway. They nearly always do; but TensorFlow leaves out an edge that a path stands for, which a copy may be on."""
    node = NodeDef()
    node.CopyFrom(edit.defs[name])
    node.input[:] = [edge for edge in node.input if not (edge.startswith("^") and edge[1:] in copies)]
    wanted = dict.fromkeys(wait for edge in edit.defs[name].input for wait in _waits(producer_of(edge), copies))
    before = _before(edit, node, copies)
    node.input.extend(f"^{wait}" for wait in wanted if wait not in before)
    return node


def _waits(name: str, copies: Mapping[str, _Copy]) -> Iterator[str]:
    """What a copy waits for, where that is a copy, too, what that one waits for; nothing for other nodes."""
    for wait in copies[name].waits if name in copies else ():
        yield from _waits(wait, copies) if wait in copies else (wait,)


def _before(edit: GraphEdit, node: NodeDef, copies: Mapping[str, _Copy]) -> set[str]:
    """Names of nodes that a node comes after, without copies."""
    seen, pending = set[str](), [node]
    while pending:
        edges = pending.pop().input
        names = {producer_of(copies[name].tensor if name in copies else name) for name in map(producer_of, edges)}
        pending += [edit.defs[name] for name in names - seen]
        seen |= names
    return seen
