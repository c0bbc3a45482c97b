"""Which small integers TensorFlow makes in host memory of what is there, beside a GPU: sizes, positions, counters."""

from __future__ import annotations

from collections.abc import Mapping, Set

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode, producer_of
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.memory_types import results_on_host
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node

MOST_ELEMENTS = 32
"""Of a vector of sizes. A longer one, or one of unknown length, is data: a column of categories, lengths of texts."""


def integers_on_host(imported: ImportedGraph, defs: Mapping[str, NodeDef]) -> frozenset[str]:
    """Names of nodes of GPUs whose results, small integers, need no copy from a device.

    TensorFlow's kernels for GPUs compute int32 on the host, also what a GPU has computed before: the words that a
    decoder found are copied there to be reshaped, and back. A region that holds such a node saves both copies.
    """
    found: set[str] = set()

    def on_host(node: ImportedNode) -> bool:
        if device_type(node.device) != "GPU" or node.op == "Placeholder":  # an argument: int32 comes in host memory
            return True
        # What no region can hold is TensorFlow's, whatever it reads.
        return results_on_host(defs[node.name]) and (
            node.reason is not None or bool(node.checks) or all(t.rpartition(":")[0] in found for t in node.inputs))

    for node in imported.nodes.values():  # in topological order, but for loops' back edges, which no region holds
        if on_host(node):
            found.add(node.name)
    return frozenset(name for name in _kept(imported, found) if device_type(imported.nodes[name].device) == "GPU")


def _kept(imported: ImportedGraph, found: Set[str]) -> Set[str]:
    """Of nodes with results in host memory those that make sizes, and vectors that sizes are made of: a region would
    hand these out for them."""
    kept: set[str] = set()
    read: set[str] = set()  # by nodes that are kept
    for node in reversed(imported.nodes.values()):
        values = [value for value in node.outputs if value is not None]
        if node.name in found and any(_is_integers(v) if node.name in read else _is_size(v) for v in values):
            kept.add(node.name)
            read.update(producer_of(tensor) for tensor in node.inputs)
    return kept


def _is_size(value: Node) -> bool:
    return _is_integers(value) and all(isinstance(e, int) and e <= MOST_ELEMENTS for e in value.type.shape)


def _is_integers(value: Node) -> bool:
    return value.type.dtype is DType.I32 and value.type.rank <= 1
