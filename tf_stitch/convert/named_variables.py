"""Lets regions that sessions run find their variables by name, once, rather than by a handle that is made and looked up
for each variable at each call.

Objects of TensorFlow 2 call functions with handles of variables that have no names. Sessions, and TensorFlow's C API,
call them from the graph, where a VarHandleOp names each variable: there other functions are called, which have no
arguments for variables. Only functions with regions that read variables themselves gain by that. A function that only
calls another, as signatures' functions do, is left out there: each call of a function costs some microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from tf_stitch.convert.entries import reached
from tf_stitch.convert.saved_model import Signature
from tf_stitch.frontend.tensorflow.control_flow import CALLS
from tf_stitch.frontend.tensorflow.held_handles import handle_of, without_arguments
from tf_stitch.frontend.tensorflow.imported_graph import producer_of

SUFFIX = "_tf_stitch_named"
Handles = Mapping[str, NodeDef]
"""Argument, or node, that is a variable's handle -> the VarHandleOp that names the variable."""
Made = dict[tuple[str, str], FunctionDef]
"""A function and the variables that it no longer has as arguments -> the function without them. The key is not kept in
the function's attributes: TensorFlow loads no function with one that it does not know."""


def name_variables(meta: MetaGraphDef, signatures: Sequence[Signature]) -> None:
    """Changes the calls of functions in a graph, and its own regions."""
    functions = {f.signature.name: f for f in meta.graph_def.library.function}
    nodes = {node.name: node for node in meta.graph_def.node}
    made: Made = {}
    for node in list(reached(meta.graph_def, signatures).values()):
        handles = {t: nodes[producer_of(t)] for t in node.input
                   if not t.startswith("^") and nodes[producer_of(t)].op == "VarHandleOp"}
        if node.op == "StitchStateOp":
            _name(node, handles)
        elif node.op in CALLS and handles and _gains(node.attr["f"].func.name, functions):
            _call_without(node, handles, functions, made)
    called = {node.attr["f"].func.name for where in (meta.graph_def.node, *(f.node_def for f in made.values()))
              for node in where if node.op in CALLS}
    meta.graph_def.library.function.extend(f for f in made.values() if f.signature.name in called)


def _gains(name: str, functions: Mapping[str, FunctionDef]) -> bool:
    """Whether a function has regions that read variables, or calls one that has."""
    function = functions.get(name)
    return function is not None and any(
        node.op == "StitchStateOp" or (node.op in CALLS and _gains(node.attr["f"].func.name, functions))
        for node in function.node_def)


def _call_without(node: NodeDef, handles: Handles, functions: Mapping[str, FunctionDef], made: Made) -> None:
    """Makes a call one of a function that names these variables itself."""
    function = functions[node.attr["f"].func.name]
    data = [t for t in node.input if not t.startswith("^")]
    named = {arg.name: handles[t] for arg, t in zip(function.signature.input_arg, data, strict=True) if t in handles}
    types = [kind for kind, t in zip(node.attr["Tin"].list.type, data, strict=True) if t not in handles]
    node.input[:] = [t for t in node.input if t not in handles]
    node.attr["Tin"].list.ClearField("type")
    node.attr["Tin"].list.type.extend(types)
    node.attr["f"].func.name = _unwrapped(_without(function, named, functions, made), made)


def _without(function: FunctionDef, named: Handles, functions: Mapping[str, FunctionDef], made: Made) -> str:
    """The name of a function that has no arguments for these variables."""
    key = "_".join(sorted(f"{a}.{_own_name(n).decode()}" for a, n in named.items()))
    if (function.signature.name, key) in made:
        return str(made[function.signature.name, key].signature.name)
    new = without_arguments(function, _with_names(named))
    new.signature.name = f"{function.signature.name}{SUFFIX}_{len(made)}"
    made[function.signature.name, key] = new
    handles = {handle_of(arg): named[arg] for arg in named}
    for node in new.node_def:
        own = {t: handles[t] for t in node.input if t in handles}
        if node.op == "StitchStateOp":
            _name(node, own)
        elif node.op in CALLS and own and _gains(node.attr["f"].func.name, functions):
            _call_without(node, own, functions, made)
    _drop_idle_nodes(new)
    return str(new.signature.name)


def _drop_idle_nodes(function: FunctionDef) -> None:
    """Drops what the executor would visit at each call for nothing: names that only regions read, which have them now,
    and what stands in for variables' reads in control outputs."""
    nodes = {node.name for node in function.node_def}
    stands_in = {node.name: node.input[0][1:] for node in function.node_def
                 if _stands_in(node) and node.input[0][1:] in nodes}  # fmt: skip
    names = list(dict.fromkeys(stands_in.get(name, name) for name in function.control_ret.values()))
    function.control_ret.clear()
    function.control_ret.update({name: name for name in names})
    function.signature.control_output[:] = names
    read = {producer_of(t) for node in function.node_def for t in node.input}
    read |= {producer_of(t) for t in function.ret.values()} | set(names)
    kept = [node for node in function.node_def
            if node.name in read or not (node.name in stands_in or node.op == "VarHandleOp")]
    del function.node_def[:]
    function.node_def.extend(kept)


def _stands_in(node: NodeDef) -> bool:
    return node.op == "NoOp" and len(node.input) == 1


def _unwrapped(name: str, made: Made) -> str:
    """The function, or the one made here that it does nothing but call with its own arguments, for its own results."""
    made_names = {f.signature.name: f for f in made.values()}
    function = made_names[name]
    calls = [node for node in function.node_def if node.op in CALLS]
    if len(calls) != 1 or any(node.op not in (*CALLS, "Identity", "NoOp") for node in function.node_def):
        return name
    called = made_names.get(calls[0].attr["f"].func.name)
    if called is None or [t for t in calls[0].input if not t.startswith("^")] != \
            [arg.name for arg in function.signature.input_arg]:  # fmt: skip
        return name
    passed = {f"{node.name}:output:0": node.input[0] for node in function.node_def if node.op == "Identity"}
    results = [function.ret[arg.name] for arg in function.signature.output_arg]
    whole = [f"{calls[0].name}:output:{i}" for i in range(len(called.signature.output_arg))]
    return str(called.signature.name) if [passed.get(t, t) for t in results] == whole else name


def _name(node: NodeDef, handles: Handles) -> None:
    """Names the variables of a region, if all of them have names."""
    count = node.attr["N"].i
    first = sum(not t.startswith("^") for t in node.input) - count
    theirs = list(node.input[first:first + count])
    if not count or any(t not in handles for t in theirs):
        return
    own = FunctionDef.FromString(node.attr["original"].s)
    places = {arg.name: handles[t] for arg, t in zip(own.signature.input_arg[first:], theirs, strict=True)}
    node.attr["original"].s = without_arguments(own, _with_names(places)).SerializeToString(deterministic=True)
    node.attr["variable_names"].list.s.extend(_full_name(handles[t]) for t in theirs)
    node.attr["N"].i = 0
    del node.input[first:first + count]


def _full_name(handle: NodeDef) -> bytes:
    """As native/op/variables.h has it."""
    container: bytes = handle.attr["container"].s if "container" in handle.attr else b""
    return container + b"\n" + _own_name(handle)


def _own_name(handle: NodeDef) -> bytes:
    """Asking for an attribute that is not there would add it, without a value."""
    shared: bytes = handle.attr["shared_name"].s if "shared_name" in handle.attr else b""
    return shared or handle.name.encode()


def _with_names(handles: Handles) -> Handles:
    """Nodes that name the same variables, whatever they are called."""
    named = {}
    for argument, source in handles.items():
        named[argument] = NodeDef()
        named[argument].CopyFrom(source)
        named[argument].attr["shared_name"].s = _own_name(source)
    return named
