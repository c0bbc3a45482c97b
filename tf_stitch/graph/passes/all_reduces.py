"""Sums over the GPUs of one process become work in the devices' streams (native/op/all_reduce_op.cc). TensorFlow's
collective ends on the host when the sum is there, and what follows is given to the devices after that: they wait for
the host, and the host for them, once a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.frontend.tensorflow.importer import device_type

ALL_REDUCE = "StitchAllReduce"
IN_STREAMS = "a sum over GPUs: work in their streams"
"""Why a report has it in no region."""
COLLECTIVE = "CollectiveReduceV2"
_INPUT, _SIZE, _GROUP, _INSTANCE = range(4)
_TYPES = frozenset({types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE,
                    types_pb2.DT_INT64})
"""Without int32, which TensorFlow keeps on the host."""
_BY_NCCL = (b"auto", b"nccl")


def all_reduces_in_streams(graph_def: GraphDef, statics: Mapping[str, Any], is_free: Callable[[str], bool],
                           has_nccl: Callable[[], bool]) -> bool:
    """Replaces sums all of whose members are in this graph, on a GPU each; whether there are any.

    Args:
        statics: values of integer tensors that are known.
        is_free: whether a node may be replaced: none in a branch or loop, none that the user wants left alone.
        has_nccl: asked if there is something to replace.
    """
    found = [n for n in graph_def.node if n.op == COLLECTIVE and _is_plain_sum(n) and is_free(n.name)]
    groups = _groups(found, statics)
    if not groups or not has_nccl():
        return False
    for members in groups:
        _replace(members)
    return True


def _is_plain_sum(node: NodeDef) -> bool:
    attributes = node.attr
    return (device_type(node.device) == "GPU" and attributes["T"].type in _TYPES
            and attributes["merge_op"].s == b"Add" and attributes["final_op"].s == b"Id"
            and attributes["communication_hint"].s in _BY_NCCL and attributes["timeout_seconds"].f == 0)


def _groups(nodes: Iterable[NodeDef], statics: Mapping[str, Any]) -> list[list[NodeDef]]:
    """Nodes of one group that is here as a whole: as many devices as it has members, equally many nodes on each. Which
    nodes meet, an input tells when they run."""
    groups: dict[tuple[int, int], list[NodeDef]] = {}
    for node in nodes:
        size, group = (statics.get(canonical_tensor(node.input[i])) for i in (_SIZE, _GROUP))
        if size is not None and group is not None:
            groups.setdefault((int(size), int(group)), []).append(node)
    return [members for (size, _), members in groups.items() if size > 1 and _is_whole(members, size)]


def _is_whole(members: Iterable[NodeDef], size: int) -> bool:
    counts: dict[str, int] = {}
    for node in members:
        counts[node.device] = counts.get(node.device, 0) + 1
    return len(counts) == size and len(set(counts.values())) == 1


def _replace(members: Iterable[NodeDef]) -> None:
    devices = sorted({node.device for node in members})
    for node in members:
        dtype = node.attr["T"].type
        node.op = ALL_REDUCE
        node.input[:] = [node.input[_INPUT], node.input[_INSTANCE], *(i for i in node.input if i.startswith("^"))]
        node.attr.clear()
        node.attr["T"].type = dtype
        node.attr["group"].s = ";".join(devices).encode()
        node.attr["size"].i, node.attr["rank"].i = len(devices), devices.index(node.device)
