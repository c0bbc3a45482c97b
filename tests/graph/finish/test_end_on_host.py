"""The end of a function waits for other GPUs by numbers in the host's memory; what computes waits for the devices."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.graph.graphs import graph_of, text_of
from tf_stitch.graph.finish.end_on_host import end_on_host

STEP = """
    a = StitchStateOp()
    b = StitchStateOp()
    group_b = NoOp(^b, ^a)
    group_a = NoOp(^a, ^group_b)
    loss = Mean(a)
    optional = OptionalFromValue(loss, ^group_a)
    result = _Retval(optional)
"""


def on_gpus(text: str, cpus: tuple[str, ...] = ()) -> GraphDef:
    """Nodes whose names end with b are on the second GPU."""
    graph = graph_of(text)
    for node in graph.node:
        node.device = "/device:CPU:0" if node.name in cpus else f"/device:GPU:{node.name.endswith('b'):d}"
    return graph


def ended(text: str, cpus: tuple[str, ...] = ()) -> dict[str, str]:
    graph = on_gpus(text, cpus)
    end_on_host(graph)
    return dict(line.split(" = ") for line in text_of(graph).splitlines())


def test_a_step_of_two_replicas() -> None:
    graph = on_gpus(STEP)
    end_on_host(graph)
    nodes = {node.name: node for node in graph.node}
    assert list(nodes["group_b"].input) == ["^b", "^tf_stitch_end_0/a"]
    assert list(nodes["group_a"].input) == ["^a", "^tf_stitch_end_1/group_b"]
    number, handed = nodes["tf_stitch_end_0/a/given"], nodes["tf_stitch_end_0/a"]
    assert (number.op, number.device, list(number.input)) == ("StitchGiven", "/device:GPU:0", ["^a"])
    assert (handed.op, handed.device, list(handed.input)) == ("StitchTaken", "/device:GPU:1", [number.name])


def test_what_computes_waits_for_the_device() -> None:
    text = """
        a = StitchStateOp()
        group_b = NoOp(^a)
        c_b = StitchOp(^group_b)
    """
    assert ended(text)["group_b"] == "NoOp(^a)"


def test_one_gpu_and_hosts_stay() -> None:
    text = "a = StitchStateOp()\nb = StitchStateOp()\nend = NoOp(^a, ^b)"
    assert ended(text, ("b",))["end"] == "NoOp(^a, ^b)"
    assert ended(text, ("end",))["end"] == "NoOp(^a, ^b)"
    assert ended("a = StitchStateOp()\nend = NoOp(^a)")["end"] == "NoOp(^a)"


def test_two_ends_share_a_number() -> None:
    text = "a = StitchStateOp()\none_b = NoOp(^a)\nother_b = NoOp(^a)"
    found = ended(text)
    assert found["one_b"] == found["other_b"] == "NoOp(^tf_stitch_end_0/a)"


def test_gpus_of_another_process() -> None:
    """They have not our ops."""
    graph = on_gpus(STEP)
    end_on_host(graph, lambda device: False)
    assert text_of(graph) == text_of(on_gpus(STEP))
