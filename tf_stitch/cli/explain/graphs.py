"""GraphDefs and SavedModels, analysed without running them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.grappler import tf_optimizer

from tf_stitch.cli.analysis import Analysis
from tf_stitch.config import load_config
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import StitchError
from tf_stitch.frontend.tensorflow.importer import TypesOf

DEVICES = {"cpu": CPU, "h200": H200}

_OPTIMIZERS = ("pruning", "function", "constfold", "shape", "arithmetic", "dependency")
"""What TensorFlow does to a graph before the graph hook gets it, as far as it needs no device."""


class Graph(NamedTuple):
    """A graph with its calls inlined, and the names of the nodes that must stay."""

    name: str
    graph_def: GraphDef
    preserved: frozenset[str]


def analyse(path: Path, size: int | None, device: str) -> dict[str, Any]:
    """The report document of a GraphDef's file or a SavedModel's folder.

    Args:
        size: stands for sizes known at run time only.
        device: one of DEVICES.

    Raises:
        StitchError: it is neither; the message says what was tried.
    """
    analysis = Analysis(load_config(), DEVICES[device], size)
    for graph in _saved_model(path) if path.is_dir() else _graph_file(path):
        analysis.add(graph.name, graph.graph_def, _types(graph.graph_def), graph.preserved)
    document: dict[str, Any] = analysis.document()
    return document


def _graph_file(path: Path) -> Iterator[Graph]:
    graph_def = GraphDef()
    try:
        if path.suffix == ".pbtxt":
            text_format.Parse(path.read_text(), graph_def)
        else:
            graph_def.ParseFromString(path.read_bytes())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise StitchError(f"{path} is neither a report.json, nor a SavedModel, nor a GraphDef: {error}") from None
    read = {i.lstrip("^").partition(":")[0] for node in graph_def.node for i in node.input}
    ends = [n.name for n in graph_def.node if n.name not in read or n.op.startswith("Placeholder")]
    yield _inlined(path.stem, graph_def, ends)


def _saved_model(path: Path) -> Iterator[Graph]:
    """One graph a signature."""
    try:
        model = tf.saved_model.load(str(path))
    except (OSError, ValueError) as error:
        raise StitchError(f"{path} is no SavedModel: {error}") from None
    for name, function in sorted(model.signatures.items()):
        graph = function.graph
        ends = [t.op.name for t in (*graph.inputs, *graph.outputs)]
        yield _inlined(name, _with_variables(function), list(dict.fromkeys(ends)))
    if not model.signatures:
        raise StitchError(f"{path} has no signatures to analyse")


def _with_variables(function: Any) -> GraphDef:
    """The function's graph; captured variables are VarHandleOps, which say their shapes."""
    graph_def = function.graph.as_graph_def()
    variables = {id(v.handle): v for v in function.variables}
    captured = {inside.op.name: variables.get(id(outside)) for outside, inside in function.graph.captures}
    for node in graph_def.node:
        variable = captured.get(node.name)
        if variable is not None:
            name = node.name
            node.Clear()
            node.name, node.op = name, "VarHandleOp"
            node.attr["dtype"].type = variable.dtype.as_datatype_enum
            node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
            node.attr["shared_name"].s = variable.name.encode()
    return graph_def


def _inlined(name: str, graph_def: GraphDef, ends: Sequence[str]) -> Graph:
    """The graph after Grappler's own passes, which inline its calls; as it is if they refuse."""
    meta = MetaGraphDef(graph_def=graph_def)
    meta.collection_def["train_op"].node_list.value.extend(ends)
    config = ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = options.ONE
    options.optimizers.extend(_OPTIMIZERS)
    try:
        graph_def = tf_optimizer.OptimizeGraph(config, meta, verbose=False)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        print(f"TensorFlow's optimizer left {name} as it is: {error}", file=sys.stderr)
    return Graph(name, graph_def, frozenset(ends))


def _types(graph_def: GraphDef) -> TypesOf:
    """Types of every node's outputs, as TensorFlow infers them on import; unknown sizes are -1."""
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")

    def types_of(name: str) -> list[tuple[int, tuple[int, ...] | None]]:
        return [(t.dtype.as_datatype_enum,
                 None if t.shape.rank is None else tuple(-1 if d is None else d for d in t.shape.as_list()))
                for t in graph.get_operation_by_name(name).outputs]  # fmt: skip

    return types_of
