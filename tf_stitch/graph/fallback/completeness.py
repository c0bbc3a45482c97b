"""Whether a fallback subgraph computes all of a region's outputs, from nodes that it holds and the region's inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.frontend.tensorflow.op_outputs import op_outputs


def why_incomplete(nodes: GraphDef, arguments: Collection[str], outputs: Iterable[str], must_run: Iterable[str]) -> str:
    """What the nodes lack, in words; "" if nothing.

    Args:
        nodes: of the fallback subgraph; loops may go around.
        arguments: tensors that come from outside, as "tfs_i0:0".
        outputs: tensors that the region hands on.
        must_run: nodes that the region replaced.
    """
    defs = {node.name: node for node in nodes.node}
    if len(defs) < len(nodes.node):
        return "two nodes of its fallback subgraph have one name"
    counts: dict[str, int] = {}
    for name in must_run:
        if name not in defs:
            return f"its fallback subgraph lacks {name}"
    for tensor in chain(outputs, (t for node in nodes.node for t in node.input)):
        name, _, index = canonical_tensor(tensor.removeprefix("^")).rpartition(":")
        if f"{name}:{index}" in arguments:
            continue
        if name not in defs:
            return f"its fallback subgraph lacks {name}"
        if name not in counts:
            try:
                counts[name] = len(op_outputs(defs[name]))
            except UnsupportedError as error:
                return f"its fallback subgraph holds {name} ({defs[name].op}): {error.message}"
        if not tensor.startswith("^") and int(index) >= counts[name]:
            return f"its fallback subgraph lacks output {index} of {name}, which has {counts[name]}"
    return ""
