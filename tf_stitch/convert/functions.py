"""Functions of a SavedModel as graphs, with the calls in them inlined, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef, FunctionDefLibrary
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.framework.types_pb2 import DT_RESOURCE
from tensorflow.core.framework.versions_pb2 import VersionDef
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.framework import function_def_to_graph, importer
from tensorflow.python.grappler import item as grappler_item
from tensorflow.python.grappler import tf_optimizer

from tf_stitch.errors import ConvertError
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.graph.fallback.fallback_function import function_def

OPTIMIZERS = ("pruning", "function", "constfold", "arithmetic", "dependency")
"""What TensorFlow does to a graph before it runs it, as far as that needs no device."""
RESULT = "tfs_result_"
"""Prefix of the names of nodes that hand a function's values out."""


@dataclass(frozen=True)
class Argument:
    """What is known of a function's argument.

    Attributes:
        variable: its type and shape, if it is one.
        shape: of a tensor, if known.
    """

    variable: tuple[int, TensorShapeProto] | None = None
    shape: TensorShapeProto | None = None


@dataclass
class Body:
    """A function's nodes, the calls among them inlined; or the nodes of a graph of TensorFlow 1.

    Attributes:
        source: None for the graph.
        graph_def: arguments are _Arg nodes of their names, results are handed out by _Retval nodes.
        preserved: names of nodes that have to stay.
        problem: why calls are not inlined, "" if they are.
        added: functions that inlining made.
        outside: names of nodes that no region may hold.
    """

    source: FunctionDef | None
    graph_def: GraphDef
    types_of: TypesOf
    preserved: frozenset[str]
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    problem: str = ""
    added: list[FunctionDef] = field(default_factory=list)
    outside: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The function's name; "graph" for that of TensorFlow 1."""
        return "graph" if self.source is None else self.source.signature.name


def body_of(function: FunctionDef, library: FunctionDefLibrary, versions: VersionDef,
            arguments: Sequence[Argument]) -> Body:
    """A function's body as a graph.

    Raises:
        ConvertError: TensorFlow cannot make a graph of it.
    """
    known = {arg.name: about for arg, about in zip(function.signature.input_arg, arguments, strict=True)}
    graph_def, outputs = _as_graph(function, library, versions, known)
    controls = sorted(set(function.control_ret.values()))
    ends = [*(t.rpartition(":")[0] or t for t in outputs), *controls, *known]
    problem = ""
    try:
        inlined = _optimized(graph_def, ends)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        inlined, problem = graph_def, f"TensorFlow's optimizer refused it: {error}"
    library_names = {f.signature.name for f in library.function}
    added = [f for f in inlined.library.function if f.signature.name not in library_names]
    types = inferred_types(inlined, ends)
    body = GraphDef(versions=versions)
    for node in inlined.node:
        node.device = ""
        body.node.append(_argument(node, list(known).index(node.name)) if node.name in known else node)
    for i, (tensor, arg) in enumerate(zip(outputs, function.signature.output_arg, strict=True)):
        node = body.node.add(name=f"{RESULT}{i}", op="_Retval", input=[tensor])
        node.attr["T"].type = arg.type
        node.attr["index"].i = i
    results = [f"{RESULT}{i}" for i in range(len(outputs))]
    return Body(function, body, types, frozenset([*known, *controls, *results]), known, problem,
                added)


def back_to_function(body: Body, graph_def: GraphDef) -> FunctionDef:
    """The function whose nodes are those of `graph_def`, in place of the body's.

    Raises:
        UnsupportedError: TensorFlow does not know one of the ops.
    """
    source, nodes = body.source, GraphDef()
    assert source is not None
    results: dict[str, str] = {}
    for node in graph_def.node:
        if node.op == "_Retval":
            results[node.name] = node.input[0]
        elif node.op != "_Arg":
            nodes.node.append(node)
    kinds = {arg.name: arg.type for arg in source.signature.input_arg}
    outputs = [(results[f"{RESULT}{i}"], arg.type) for i, arg in enumerate(source.signature.output_arg)]
    made = function_def(source.signature.name, nodes, kinds, outputs, ())
    function = FunctionDef(signature=source.signature)
    function.node_def.extend(made.node_def)
    for i, arg in enumerate(source.signature.output_arg):
        function.ret[arg.name] = made.ret[f"o{i}"]
    for copied in ("attr", "arg_attr", "control_ret", "resource_arg_unique_id"):
        theirs = getattr(source, copied)
        for key in theirs:
            if copied in ("control_ret", "resource_arg_unique_id"):
                getattr(function, copied)[key] = theirs[key]
            else:
                getattr(function, copied)[key].CopyFrom(theirs[key])
    return function


def inferred_types(graph_def: GraphDef, ends: Sequence[str]) -> TypesOf:
    """Types of every node's outputs, as TensorFlow infers them; equal negative sizes are equal."""
    known = GraphDef()
    known.CopyFrom(graph_def)
    for node in list(known.node):
        if node.op == "Placeholder" and node.attr["dtype"].type != DT_RESOURCE:
            known.node.append(_read_in_place_of(node))
    meta = _meta(known, ends)
    properties = grappler_item.Item(meta, ignore_user_placement=False).GetOpProperties()
    found = {name: [(p.dtype, None if p.shape.unknown_rank else tuple(d.size for d in p.shape.dim)) for p in outputs]
             for name, outputs in properties.items()}
    return lambda name: found.get(name, [])


def _as_graph(function: FunctionDef, library: FunctionDefLibrary, versions: VersionDef, known: Mapping[str, Argument]
              ) -> tuple[GraphDef, list[str]]:
    try:
        with tf.Graph().as_default():
            importer.import_graph_def(GraphDef(library=library, versions=versions), name="")
            graph_def, names = function_def_to_graph.function_def_to_graph_def(function)
    except (ValueError, KeyError, tf.errors.OpError) as error:
        raise ConvertError(f"function {function.signature.name} makes no graph: {error}") from None
    graph_def.library.CopyFrom(library)
    graph_def.versions.CopyFrom(versions)
    for node in graph_def.node:
        about = known.get(node.name)
        if about is None:
            continue
        if about.variable is not None:
            _make_variable(node, *about.variable)
        elif about.shape is not None:
            node.attr["shape"].shape.CopyFrom(about.shape)
        elif node.attr["dtype"].type == DT_RESOURCE:
            node.attr["shape"].shape.unknown_rank = False
    return graph_def, [names[function.ret[arg.name]] for arg in function.signature.output_arg]


def _make_variable(node: NodeDef, dtype: int, shape: TensorShapeProto) -> None:
    """In place of an argument: it says the variable's shape."""
    name = node.name
    node.Clear()
    node.name, node.op = name, "VarHandleOp"
    node.attr["dtype"].type = dtype
    node.attr["shape"].shape.CopyFrom(shape)
    node.attr["shared_name"].s = name.encode()


def _read_in_place_of(node: NodeDef) -> NodeDef:
    """Makes a placeholder the read of a variable, which is returned: TensorFlow would take a placeholder's shape for
    unknown, since it may be fed anything, and knows a variable's."""
    dtype, shape = node.attr["dtype"].type, TensorShapeProto(unknown_rank=True)
    if "shape" in node.attr:
        shape.CopyFrom(node.attr["shape"].shape)
    handle = NodeDef(name=f"{node.name}/tfs_type")
    _make_variable(handle, dtype, shape)
    node.op = "ReadVariableOp"
    node.attr.clear()
    node.attr["dtype"].type = dtype
    node.input[:] = [handle.name]
    return handle


def _argument(source: NodeDef, index: int) -> NodeDef:
    node = NodeDef(name=source.name, op="_Arg")
    node.attr["T"].type = DT_RESOURCE if source.op == "VarHandleOp" else source.attr["dtype"].type
    node.attr["index"].i = index
    return node


def _optimized(graph_def: GraphDef, ends: Sequence[str]) -> GraphDef:
    config = ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = options.TWO
    options.optimizers.extend(OPTIMIZERS)
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"  # loops and branches stay functions
    return tf_optimizer.OptimizeGraph(config, _meta(graph_def, ends), verbose=False)


def _meta(graph_def: GraphDef, ends: Sequence[str]) -> MetaGraphDef:
    meta = MetaGraphDef(graph_def=graph_def)
    meta.collection_def["train_op"].node_list.value.extend(dict.fromkeys(ends))
    return meta
