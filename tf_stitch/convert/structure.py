"""What two models have in common that differ in weights and names: what is measured of one holds for the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of

_NAMES = frozenset({"_class", "allowed_devices", "container", "debug_name", "shared_name"})
"""Attributes that name something, and change nothing about what a node computes."""
_WEIGHTS = 64
"""Elements of a constant beyond which its values are weights; fewer may be sizes, axes and the like."""


def structure_of(graphs: Iterable[GraphDef]) -> str:
    """A digest of the ops of graphs, their order, edges and attributes, without names and weights."""
    digest = hashlib.sha256()
    for graph in graphs:
        number = {node.name: i for i, node in enumerate(graph.node)}
        for node in graph.node:
            edges = [(t[:1] == "^", number.get(producer_of(t), -1), t.rpartition(":")[2] if ":" in t else "")
                     for t in node.input]
            attrs = [(key, _value(node.attr[key])) for key in sorted(node.attr) if key not in _NAMES]
            digest.update(repr((node.op, edges, attrs)).encode())
    return digest.hexdigest()


def _value(attr: AttrValue) -> bytes | str:
    kind = attr.WhichOneof("value")
    if kind == "func":
        return "function"
    if kind == "tensor":
        shape = [dim.size for dim in attr.tensor.tensor_shape.dim]
        count = 1
        for size in shape:
            count *= size
        if count > _WEIGHTS:
            return f"{attr.tensor.dtype} {shape}"
    serialized: bytes = attr.SerializeToString(deterministic=True)
    return serialized
