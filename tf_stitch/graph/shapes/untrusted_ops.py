"""Ops of which TensorFlow's inference calls sizes equal that need not be.

Found, and held complete, by `python -m tools.inferred_sizes`, which runs every op with sizes that differ
(benchmarks/inferred_sizes.json).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tensorflow.core.framework.node_def_pb2 import NodeDef

UNTRUSTED: Mapping[str, tuple[int, ...]] = {
    "SpaceToBatch": (1,),
    "SpaceToBatchND": (1, 2),
    "BatchToSpace": (1,),
    "BatchToSpaceND": (1, 2),
}
"""Op -> inputs that have to be constants, all of them, for its inferred sizes to be so; none: they never are."""


def is_untrusted(node: NodeDef, constants: Collection[str]) -> bool:
    """Whether nothing may be concluded from the sizes that inference has of a node's results.

    Args:
        constants: names of nodes that are constants.
    """
    if node.op not in UNTRUSTED:
        return False
    inputs = [text.removesuffix(":0") for text in node.input if not text.startswith("^")]
    return not UNTRUSTED[node.op] or any(inputs[i] not in constants for i in UNTRUSTED[node.op])
