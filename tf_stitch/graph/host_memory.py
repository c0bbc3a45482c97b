"""Which small integers TensorFlow makes in host memory of what is there, beside a GPU: sizes, positions, counters."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.memory_types import results_on_host
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node


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
    return frozenset(name for name in found if device_type(imported.nodes[name].device) == "GPU"
                     and any(_is_small_integer(v) for v in imported.nodes[name].outputs if v is not None))


def _is_small_integer(value: Node) -> bool:
    return value.type.dtype is DType.I32 and value.type.rank <= 1
