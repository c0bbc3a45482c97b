"""Which arguments belong to the device that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.graph.graphs import placed
from tf_stitch.errors import VerifyError
from tf_stitch.graph.finish.move_arguments import MoveArguments
from tf_stitch.graph.finish.upload_inputs import upload_inputs
from tf_stitch.graph.finish.validation import validate_graph
from tf_stitch.graph.state import GraphState

F32, I32, HANDLE = (dtype.as_datatype_enum for dtype in (tf.float32, tf.int32, tf.resource))


def test_words_of_a_step() -> None:
    graph = _graph("""
        words = _Arg()
        image = _Arg()
        r = StitchOp(words, image)
        s = StitchOp(words)
    """, "0c 0c 00 00", {"r": [I32, F32], "s": [I32]}, {"words": I32, "image": F32})
    upload_inputs(graph)
    assert _moved(graph) == {"words": "/job:worker/replica:0/task:0/device:GPU:0"}


def test_what_a_gpus_kernel_would_want_in_its_memory() -> None:
    """TensorFlow copies it there, from one device to the other."""
    graph = _graph("""
        words = _Arg()
        n = Cast(words)
        r = StitchOp(n)
    """, "0c 00 00", {"r": [F32]}, {"words": I32})
    graph.node[1].attr["SrcT"].type, graph.node[1].attr["DstT"].type = I32, F32
    assert _moved(graph) == {}


def test_several_devices_read_it() -> None:
    graph = _graph("""
        words = _Arg()
        more = _Arg()
        r = StitchOp(words, more)
        s = StitchOp(words)
        n = NoOp(^more)
    """, "0c 0c 00 01 0c", {"r": [I32, I32], "s": [I32]}, {"words": I32, "more": I32})
    upload_inputs(graph)
    assert _moved(graph) == {}


def test_nobody_reads_it() -> None:
    assert _moved(_graph("words = _Arg()", "0c", {}, {"words": I32})) == {}


def test_another_process_reads_it() -> None:
    graph = _graph("""
        words = _Arg()
        r = StitchOp(words)
    """, "0c 10", {"r": [I32]}, {"words": I32})
    upload_inputs(graph)
    assert _moved(graph, lambda device: "task:0" in device) == {}
    assert _moved(graph, lambda device: "task:1" in device) == {}


@pytest.mark.parametrize(("dtype", "refused"), [(I32, False), (F32, True), (HANDLE, True)])
def test_what_a_rewritten_graph_may_have_moved(dtype: int, refused: bool) -> None:
    before = _graph("""
        words = _Arg()
        r = StitchOp(words)
    """, "0c 00", {"r": [dtype]}, {"words": dtype})
    after = GraphDef.FromString(before.SerializeToString())
    after.node[0].device = after.node[1].device
    if refused:
        with pytest.raises(VerifyError, match="words \\(_Arg\\): moved from"):
            validate_graph(before, after, frozenset())
    else:
        validate_graph(before, after, frozenset())
        with pytest.raises(VerifyError, match="r \\(StitchOp\\): moved from"):
            validate_graph(after, _with_device(after, "r", before.node[0].device), frozenset())


def _graph(text: str, devices: str, regions: Mapping[str, Sequence[int]], arguments: Mapping[str, int]) -> GraphDef:
    graph = placed(text, devices, regions)
    for node in graph.node:
        if node.op == "_Arg":
            node.attr["T"].type = arguments[node.name]
    return graph


def _moved(graph: GraphDef, is_own: Callable[[str], bool] = lambda device: True) -> dict[str, str]:
    before = graph.SerializeToString(deterministic=True)
    done = MoveArguments().run(GraphState(graph, lambda name: [], frozenset(), is_own=is_own))
    assert graph.SerializeToString(deterministic=True) == before
    devices = {node.name: node.device for node in graph.node}
    moved = {node.name: node.device for node in done.graph.graph_def.node if node.device != devices[node.name]}
    assert done.modified == bool(moved)
    return moved


def _with_device(graph: GraphDef, name: str, device: str) -> GraphDef:
    other = GraphDef.FromString(graph.SerializeToString())
    next(node for node in other.node if node.name == name).device = device
    return other
