"""Every node of a graph for the report."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.own_ops import OWN_OPS
from tf_stitch.report.entries import NodeEntry


def node_entries(graph_def: GraphDef, region_of: Mapping[str, int], reasons: Mapping[str, str]) -> list[NodeEntry]:
    """One entry a node, in the graph's order; our own ops of an earlier rewrite belong to the region they run."""
    place = {node.name: i for i, node in enumerate(graph_def.node)}
    entries: list[NodeEntry] = []
    for node in graph_def.node:
        region = _region(node, region_of)
        reason = None if region is not None else reasons.get(node.name, "")
        before = dict.fromkeys(i.rpartition(":")[0] or i for i in node.input if not i.startswith("^"))
        entries.append(NodeEntry(node.name, node.op, region, reason, [place[b] for b in before if b in place]))
    return entries


def _region(node: NodeDef, region_of: Mapping[str, int]) -> int | None:
    return node.attr["region"].i if node.op in OWN_OPS else region_of.get(node.name)
