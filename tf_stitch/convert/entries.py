"""What of a SavedModel is rewritten: functions that signatures call; of TensorFlow 1 the graph itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

from tf_stitch.convert.functions import Argument, Body, body_of, inferred_types
from tf_stitch.convert.saved_model import Model, Signature
from tf_stitch.frontend.tensorflow.control_flow import CALLS
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.registry import LEGALIZATIONS

_WRAPPING = frozenset({*CALLS, "Identity", "IdentityN", "NoOp", "Const", "Placeholder", "VarHandleOp",
                       "ReadVariableOp"})
_NOT_CONVERTED = ("_XlaMustCompile", "_tf_data_function", "api_implements")
"""Attributes of functions that are for others than TensorFlow's executor."""


@dataclass(frozen=True)
class Entry:
    """A function of the library, with what is known of its arguments."""

    function: str
    arguments: tuple[Argument, ...]


def bodies(model: Model, signatures: Sequence[Signature]) -> list[Body]:
    """What is to be rewritten.

    Raises:
        ConvertError: TensorFlow cannot make a graph of a function.
    """
    graph_def = model.meta.graph_def
    functions = {f.signature.name: f for f in graph_def.library.function}
    found: dict[str, Body] = {}
    not_ours = left_alone(functions)
    waiting = list(_called_by(graph_def, signatures, functions))
    while waiting:
        entry = waiting.pop()
        if entry.function in found or entry.function in not_ours:
            continue
        body = body_of(functions[entry.function], graph_def.library, graph_def.versions, entry.arguments)
        found[entry.function] = body
        waiting += _inner(body, functions)
    own = [] if not _computes(graph_def, signatures) else [_graph_body(model, signatures)]
    return [*own, *found.values()]


def left_alone(functions: Mapping[str, FunctionDef]) -> set[str]:
    """Names of functions that are for others than TensorFlow's executor, and of those that they call: XLA, say, cannot
    compile a StitchOp."""
    found = set[str]()
    waiting = [name for name, function in functions.items() if any(key in function.attr for key in _NOT_CONVERTED)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in functions:
            continue
        found.add(name)
        for node in functions[name].node_def:
            for attr in node.attr.values():
                waiting += [attr.func.name] if attr.WhichOneof("value") == "func" else \
                    [f.name for f in attr.list.func]
    return found


def reached(graph_def: GraphDef, signatures: Sequence[Signature]) -> dict[str, NodeDef]:
    """Nodes between the inputs of signatures and their outputs, both included."""
    nodes = {node.name: node for node in graph_def.node}
    inputs = {producer_of(v.tensor) for s in signatures for v in s.inputs}
    stack = [producer_of(v.tensor) for s in signatures for v in s.outputs]
    found: dict[str, NodeDef] = {}
    while stack:
        name = stack.pop()
        if name in found or name not in nodes:
            continue
        found[name] = nodes[name]
        if name not in inputs:
            stack.extend(producer_of(t) for t in nodes[name].input)
    return found


def _computes(graph_def: GraphDef, signatures: Sequence[Signature]) -> bool:
    return any(node.op in LEGALIZATIONS and node.op not in _WRAPPING
               for node in reached(graph_def, signatures).values())


def _called_by(graph_def: GraphDef, signatures: Sequence[Signature], functions: Mapping[str, FunctionDef]
               ) -> Iterator[Entry]:
    nodes = {node.name: node for node in graph_def.node}
    for node in reached(graph_def, signatures).values():
        if node.op in CALLS:
            given = [_outer(nodes[producer_of(t)]) for t in node.input if not t.startswith("^")]
            yield from _unwrapped(node.attr["f"].func.name, given, functions)


def _outer(node: NodeDef) -> Argument:
    if node.op == "VarHandleOp":
        return Argument(variable=(node.attr["dtype"].type, node.attr["shape"].shape))
    known = node.op == "Placeholder" and "shape" in node.attr  # else its rank is unknown: defaults are not saved
    return Argument(shape=node.attr["shape"].shape) if known else Argument()


def _unwrapped(name: str, given: Sequence[Argument], functions: Mapping[str, FunctionDef]) -> Iterator[Entry]:
    """The function, or the one that it does nothing but call."""
    function = functions.get(name)
    if function is None:
        return
    known = {arg.name: about for arg, about in zip(function.signature.input_arg, given, strict=True)}
    calls = [node for node in function.node_def if node.op in CALLS]
    if len(calls) == 1 and all(node.op in _WRAPPING - {"ReadVariableOp"} for node in function.node_def):
        inner = [known.get(t, Argument()) for t in calls[0].input if not t.startswith("^")]
        yield from _unwrapped(calls[0].attr["f"].func.name, inner, functions)
    else:
        yield Entry(name, tuple(given))


def _inner(body: Body, functions: Mapping[str, FunctionDef]) -> Iterator[Entry]:
    """Functions that a body runs as loops and branches: the calls in it are inlined."""
    variables = {}
    for node in body.graph_def.node:
        if node.op == "_Arg":
            variables[node.name] = body.arguments.get(node.name, Argument())
    for node in body.graph_def.node:
        given = _given(node, body, variables)
        for key in ("body", "cond", "then_branch", "else_branch", "branches", "f"):
            if key not in node.attr or node.op not in _CONTROL:
                continue
            attr = node.attr[key]
            called = [attr.func.name] if attr.WhichOneof("value") == "func" else [f.name for f in attr.list.func]
            for name in called:
                skipped = len(given) - len(functions[name].signature.input_arg) if name in functions else -1
                if skipped in (0, 1):  # the condition of a branch is no argument
                    yield Entry(name, tuple(given[skipped:]))


def _given(node: NodeDef, body: Body, variables: Mapping[str, Argument]) -> list[Argument]:
    """What is known of what a loop, branch or call hands to its functions."""
    found = []
    for i, tensor in enumerate(t for t in node.input if not t.startswith("^")):
        producer, _, index = tensor.partition(":")
        if producer in variables:
            found.append(variables[producer])
        elif node.op in ("While", "StatelessWhile"):  # other iterations may have other shapes
            shapes = node.attr["output_shapes"].list.shape
            found.append(Argument(shape=shapes[i]) if i < len(shapes) else Argument())
        else:
            found.append(_of_type(body.types_of(producer), int(index or 0)))
    return found


def _of_type(types: Sequence[tuple[int, tuple[int, ...] | None]], index: int) -> Argument:
    dims = types[index][1] if index < len(types) else None
    if dims is None:
        return Argument()
    shape = TensorShapeProto()
    for dim in dims:
        shape.dim.add().size = max(dim, -1)
    return Argument(shape=shape)


_CONTROL = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase", *CALLS})


def _graph_body(model: Model, signatures: Sequence[Signature]) -> Body:
    """The graph of a model of TensorFlow 1. What lies not between inputs and outputs stays, and what it reads."""
    graph_def = model.meta.graph_def
    between = reached(graph_def, signatures)
    preserved = {node.name for node in graph_def.node if node.name not in between}
    preserved |= {producer_of(t) for node in graph_def.node if node.name not in between for t in node.input}
    preserved |= {producer_of(v.tensor) for s in model.signatures().values() for v in (*s.inputs, *s.outputs)}
    preserved |= {node.name for node in between.values() if node.op in ("VarHandleOp", "ReadVariableOp", "VariableV2")}
    preserved |= set(_named_in_collections(model, between))
    types = inferred_types(graph_def, [producer_of(v.tensor) for s in signatures for v in s.outputs])
    return Body(None, graph_def, types, frozenset(preserved), outside=frozenset(
        node.name for node in graph_def.node if node.name not in between))


def _named_in_collections(model: Model, nodes: Mapping[str, NodeDef]) -> Iterator[str]:
    for collection in model.meta.collection_def.values():
        for name in collection.node_list.value:
            if producer_of(name) in nodes:
                yield producer_of(name)
