"""Values in place of the optionals by which a branch hands what it computed to the branch of its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_VARIANT

from tf_stitch.frontend.tensorflow.control_context import Context, context_of, control_contexts, frame_names
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult

_MADE, _NONE, _TAKEN = "OptionalFromValue", "OptionalNone", "OptionalGetValue"
_PASS_ON = ("Identity", "Switch")


@dataclass(frozen=True)
class ValuesOfOptionals:
    """A side of a branch that is differentiated gives each value that the gradient wants as an optional, since the
    other side has none; the same side of the gradient's branch takes it out. No region holds an optional. Both sides
    hang on one predicate: whoever takes the value out runs if and only if it was computed, and may read it directly.
    """

    name: str = "values_of_optionals"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        modified = False
        while any(node.op == _MADE for node in state.graph_def.node):
            edit = _edited(state)
            if not edit.gone:
                break
            state, modified = edit.applied(), True  # a branch's own predicate may have been an optional
        return PassResult(state, modified)


def _edited(state: GraphState) -> GraphEdit:
    graph, edit = state.imported, GraphEdit(state)
    contexts = control_contexts(graph, frame_names(state.graph_def))

    def context(tensor: str) -> Context:
        return context_of(graph, contexts, canonical_tensor(tensor))

    # A function hands its values out through _Retval nodes: other nodes that must exist are only waited for.
    is_function = any(node.op in ("_Arg", "_Retval") for node in state.graph_def.node)
    for node in edit.order:
        if node.name in state.preserved and not is_function:
            continue
        if node.op == "IdentityN" and DT_VARIANT in node.attr["T"].list.type:
            _pass_by(node, edit)
        elif node.op == _TAKEN and not _is_waited_for(node, edit):
            for made in _makers(edit, node.input[0]):
                given = [edge for edge in made.input if not edge.startswith("^")]
                if all(context(tensor) == contexts[node.name] for tensor in given):  # it is of the reader's side
                    _read_directly(node, given, edit)
                    break
    _drop_unread(edit)
    return edit


def _makers(edit: GraphEdit, tensor: str) -> list[NodeDef]:
    """The nodes that make optionals with a value of which a tensor is one, if it has any; none if that is not sure."""
    node = _producer(edit, tensor)
    while node.op in _PASS_ON:
        node = _producer(edit, node.input[0])
    sources = [_producer(edit, edge) for edge in node.input if not edge.startswith("^")] if node.op == "Merge" else []
    sure = all(source.op in (_MADE, _NONE) for source in sources)
    return [source for source in sources if source.op == _MADE] if sure else []


def _producer(edit: GraphEdit, tensor: str) -> NodeDef:
    return edit.defs[producer_of(edit.renamed.get(canonical_tensor(tensor), tensor))]


def _pass_by(node: NodeDef, edit: GraphEdit) -> None:
    """What a conditional gives is read where its sides meet."""
    data = [edge for edge in node.input if not edge.startswith("^")]
    if _is_waited_for(node, edit):
        names = dict.fromkeys(map(producer_of, [e for e, kind in zip(data, node.attr["T"].list.type, strict=True)
                                                if kind != DT_VARIANT] + [e for e in node.input if e.startswith("^")]))
        edit.new.append(NodeDef(name=node.name, op="NoOp", input=[f"^{name}" for name in names], device=node.device))
        edit.new_types[node.name] = []
    _read_directly(node, data, edit)


def _read_directly(node: NodeDef, sources: Sequence[str], edit: GraphEdit) -> None:
    """Takes a node out whose outputs are these tensors."""
    edit.gone.add(node.name)
    for i, tensor in enumerate(sources):
        edit.renamed[f"{node.name}:{i}"] = edit.renamed.get(canonical_tensor(tensor), tensor)
        readers = [user for user in edit.users.get(node.name, ())
                   if any(canonical_tensor(edge) == f"{node.name}:{i}" for edge in user.input)]
        edit.users.setdefault(producer_of(edit.renamed[f"{node.name}:{i}"]), []).extend(readers)


def _is_waited_for(node: NodeDef, edit: GraphEdit) -> bool:
    return (node.name in edit.state.preserved
            or any(f"^{node.name}" in user.input for user in edit.users.get(node.name, ())))


def _drop_unread(edit: GraphEdit) -> None:
    """Takes out optionals that nobody reads (any more): they would keep their branch a branch."""
    for node in reversed(edit.order):
        kind = node.attr["T"].type if "T" in node.attr else None
        if not (node.op in (_MADE, _NONE) or (node.op in (*_PASS_ON, "Merge") and kind == DT_VARIANT)):
            continue
        read = any(user.name not in edit.gone for user in edit.users.get(node.name, ()))
        if not read and node.name not in edit.state.preserved:
            edit.gone.add(node.name)
