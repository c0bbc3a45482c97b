"""Which inputs of regions are copied to their devices by ops of ours."""

from __future__ import annotations

import tensorflow as tf

from tests.graph.graphs import placed, text_of
from tf_stitch.graph.finish.upload_inputs import UploadInputs, upload_inputs
from tf_stitch.graph.state import GraphState

F32, I32 = tf.float32.as_datatype_enum, tf.int32.as_datatype_enum


def test_values_of_the_host() -> None:
    graph = placed("""
        words = Placeholder()
        image = Placeholder()
        r = StitchOp(words, image:0, ^image)
        s = StitchStateOp(r:1, words:0)
    """, "0c 00 00 00", {"r": [I32, F32], "s": [F32, I32]})
    upload_inputs(graph)
    assert text_of(graph).splitlines() == [
        "words = Placeholder()", "image = Placeholder()", "r = StitchOp(r/upload_0, image:0, ^image)",
        "s = StitchStateOp(r:1, r/upload_0)", "r/upload_0 = StitchUpload(words)"]
    upload = graph.node[-1]
    assert (upload.device, upload.attr["T"].type) == (graph.node[2].device, I32)


def test_what_a_gpus_kernel_leaves_on_the_host() -> None:
    """A size; its handles and what follows by control edges stay as they are."""
    graph = placed("""
        x = Placeholder()
        v = VarHandleOp()
        size = Shape(x)
        r = StitchStateOp(size, x, v, ^size)
    """, "00 00 00 00", {"r": [I32, F32]})
    graph.node[2].attr["T"].type, graph.node[2].attr["out_type"].type = F32, I32
    upload_inputs(graph)
    assert text_of(graph).splitlines()[-2:] == ["r = StitchStateOp(r/upload_0, x, v, ^size)",
                                                "r/upload_0 = StitchUpload(size)"]


def test_regions_of_the_host_read_what_is_there() -> None:
    graph = placed("""
        x = Placeholder()
        r = StitchOp(x)
    """, "0c 0c", {"r": [F32]})
    before = graph.SerializeToString(deterministic=True)
    upload_inputs(graph)
    assert graph.SerializeToString(deterministic=True) == before


def test_an_upload_is_no_value_of_the_host() -> None:
    """Where a graph is rewritten again."""
    graph = placed("""
        x = Placeholder()
        r = StitchOp(x)
    """, "0c 00", {"r": [F32]})
    upload_inputs(graph)
    once = text_of(graph)
    upload_inputs(graph)
    assert text_of(graph) == once


def test_the_pass_leaves_the_graph_before_as_it_was() -> None:
    graph = placed("""
        words = Placeholder()
        r = StitchOp(words)
    """, "0c 00", {"r": [I32]})
    before = text_of(graph)
    state = GraphState(graph, lambda name: [], frozenset())
    done = UploadInputs().run(state)
    assert done.modified
    assert (text_of(graph), "StitchUpload" in text_of(done.graph.graph_def)) == (before, True)
    again = UploadInputs().run(done.graph)
    assert (again.modified, again.graph is done.graph) == (False, True)
