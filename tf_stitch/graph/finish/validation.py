"""Checks a rewritten graph before TensorFlow gets it: some of these mistakes crash TensorFlow, others fail the step."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import SourceLoc, VerifyError
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.own_ops import OUR_PREFIX, STITCH_OPS
from tf_stitch.graph.clustering.py_function import task_cpu
from tf_stitch.graph.finish.move_arguments import may_move
from tf_stitch.graph.finish.node_order import in_running_order

_BOUNDARY_OPS = frozenset({"_Arg", "_Retval", "_DeviceArg", "_DeviceRetval"})


def validate_graph(before: GraphDef, after: GraphDef, preserved: frozenset[str],
                   is_own: Callable[[str], bool] = lambda device: True) -> None:
    """Checks that `after` can stand for `before`.

    Args:
        is_own: whether a device is of this process, where alone our ops run.

    Raises:
        VerifyError: naming the node: a name twice, an input that does not exist, a cycle, a node gone that must
            stay, a device that differs from before and that MoveArguments may not have changed, or an op of ours on a
            device of another process.
    """
    nodes = {node.name: node for node in after.node}
    if len(nodes) != len(after.node):
        raise VerifyError("two nodes have the same name")
    _check_kept(before, nodes, preserved)
    _check_devices(before, after, is_own)
    for node in after.node:
        _check_inputs(node, nodes)
    in_running_order(after)


def _check_kept(before: GraphDef, nodes: dict[str, NodeDef], preserved: frozenset[str]) -> None:
    for node in before.node:
        kept = nodes.get(node.name)
        if node.op in _BOUNDARY_OPS:
            if kept is None or kept.op != node.op:
                raise VerifyError("the rewrite lost a function boundary", _loc(node))
        elif kept is None and node.name in preserved:
            raise VerifyError("the rewrite lost a node that must stay", _loc(node))


def _check_devices(before: GraphDef, after: GraphDef, is_own: Callable[[str], bool]) -> None:
    before_nodes = {node.name: node for node in before.node}
    devices = {node.device for node in before.node}
    used = devices.union(map(task_cpu, devices))
    for node in after.node:
        given = before_nodes.get(node.name, node)
        if given.device != node.device and not may_move(given, node.device, is_own):
            raise VerifyError(f"moved from {given.device!r} to {node.device!r}", _loc(node))
        if node.device not in used:
            raise VerifyError(f"is on {node.device!r}, which the graph did not use", _loc(node))
        if node.op.startswith(OUR_PREFIX) and not is_own(node.device):
            raise VerifyError(f"is on {node.device!r}, a device of another process", _loc(node))


def _check_inputs(node: NodeDef, nodes: dict[str, NodeDef]) -> None:
    control = False
    for name in node.input:
        if control and not name.startswith("^"):
            raise VerifyError(f"data input {name!r} after a control input", _loc(node))
        control = name.startswith("^")
        producer = nodes.get(producer_of(name))
        if producer is None:
            raise VerifyError(f"input {name!r} does not exist", _loc(node))
        if producer.op in STITCH_OPS and not control:
            index = int(name.rpartition(":")[2]) if ":" in name else 0
            if index >= len(producer.attr["Tout"].list.type):
                raise VerifyError(f"input {name!r} is beyond the outputs of its node", _loc(node))
    if node.op in STITCH_OPS:
        wanted = sum(len(node.attr[types].list.type) for types in ("Tin", "Thost") if types in node.attr)
        wanted += node.attr["N"].i if "N" in node.attr else 0
        given = sum(not name.startswith("^") for name in node.input)
        if wanted != given:
            raise VerifyError(f"has {given} data inputs, its attributes say {wanted}", _loc(node))


def _loc(node: NodeDef) -> SourceLoc:
    return SourceLoc(node.name, node.op)
