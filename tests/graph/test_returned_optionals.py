"""Optionals that a function returns stay on the GPU that has what is in them."""

from __future__ import annotations

from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.graph.graphs import graph_of
from tf_stitch.graph.returned_optionals import leave_on_gpu

GPU, OTHER, HOST = "/job:localhost/replica:0/task:0/device:GPU:0", "/device:GPU:1", "/device:CPU:0"
STEP = """
    loss = StitchStateOp()
    group = NoOp(^loss)
    optional = OptionalFromValue(loss:0, loss:1, ^group)
    handed = Identity(optional)
    result = _Retval(handed)
"""


def placed(text: str, **devices: str) -> GraphDef:
    graph = graph_of(text)
    for node in graph.node:
        node.device = devices.get(node.name, HOST if node.name in ("optional", "handed", "result", "other") else GPU)
    return graph


def moved(graph: GraphDef) -> set[str]:
    """Nodes that another device has then."""
    before = {node.name: node.device for node in graph.node}
    leave_on_gpu(graph)
    return {node.name for node in graph.node if node.device != before[node.name]}


def test_a_step_is_returned_where_it_is() -> None:
    graph = placed(STEP)
    assert moved(graph) == {"optional", "handed", "result"}
    assert {node.device for node in graph.node} == {GPU}


def test_values_of_two_devices() -> None:
    text = STEP.replace("loss:1", "b").replace("group", "b = StitchOp()\n    group")
    for device in (OTHER, HOST):
        assert not moved(placed(text, b=device))


def test_values_of_the_host() -> None:
    assert not moved(placed(STEP, loss=HOST))
    graph = placed(STEP.replace("loss:1", "number").replace("group", "number = Const()\n    group"))
    next(node for node in graph.node if node.name == "number").attr["dtype"].type = types_pb2.DT_INT32
    assert not moved(graph)


def test_who_reads_it_here_reads_it_there() -> None:
    assert not moved(placed(STEP + "    other = OptionalGetValue(handed)\n"))


def test_one_that_is_on_a_gpu_stays() -> None:
    assert not moved(placed(STEP, optional=OTHER, handed=OTHER, result=OTHER))


def test_nothing_in_it() -> None:
    assert not moved(placed("optional = OptionalFromValue()\nresult = _Retval(optional)\n"))
