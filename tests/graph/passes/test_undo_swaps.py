"""What TensorFlow's memory optimizer copies to the host and back stays on the GPU, and nobody loses its place in the
order."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.graph.graphs import graph_of, text_of
from tf_stitch.graph.passes.undo_swaps import UndoSwaps
from tf_stitch.graph.state import GraphState
from tools.benchmark.gpu_regions import optimized, regions_of

TIGHT = 40 << 20
LAYERS, ROWS, WIDTH = 6, 32768, 256
COPIES = ("_CopyFromGpuToHost", "_CopyFromHostToGpu")


def gradients(x: tf.Tensor, *weights: tf.Tensor) -> list[tf.Tensor]:
    """Of a network that keeps some 200 MiB for each layer."""
    y = x
    for weight in weights:
        y += tf.nn.gelu(y @ weight)
    return tf.gradients(tf.reduce_sum(y * y), weights)


@pytest.fixture(scope="module")
def step() -> Any:
    given = [tf.TensorSpec(shape, tf.float32) for shape in ((ROWS, WIDTH), *[(WIDTH, WIDTH)] * LAYERS)]
    return tf.function(gradients, autograph=False).get_concrete_function(*given)


def undone(before: GraphDef, preserved: frozenset[str] = frozenset()) -> GraphDef:
    result = UndoSwaps().run(GraphState(before, lambda name: [], preserved))
    assert result.modified is (result.graph.graph_def != before)
    return result.graph.graph_def


def test_a_step_is_the_same_however_little_memory_there_is(step: Any) -> None:
    def edges(graph: GraphDef) -> dict[str, list[str]]:
        return {node.name: sorted(edge.removesuffix(":0") for edge in node.input) for node in graph.node}

    plenty, tight = optimized(step), optimized(step, TIGHT)
    assert sum(node.op in COPIES for node in tight.node) > LAYERS
    assert edges(undone(tight)) == edges(plenty)
    assert undone(plenty) == plenty


def test_a_step_on_a_gpu_of_little_memory_is_one_region(step: Any) -> None:
    assert len(regions_of(step, TIGHT).regions.regions) == len(regions_of(step).regions.regions) == 1


SWAPPED = """
    x = Placeholder()
    a = Tanh(x)
    out = _CopyFromGpuToHost(a)
    b = Exp(a, ^out)
    c = Sin(b)
    in = _CopyFromHostToGpu(out, ^c)
    y = Mul({reads}, in)
"""


def test_copies_go_and_nobody_waits_for_them() -> None:
    assert text_of(undone(graph_of(SWAPPED.format(reads="c")))) == text_of(graph_of("""
        x = Placeholder()
        a = Tanh(x)
        c = Sin(b)
        b = Exp(a)
        y = Mul(c, a:0)
    """))


def test_an_order_that_a_copy_kept_is_kept() -> None:
    """One copy waits for another, as where the optimizer takes the copy of one round for a node of the next."""
    text = SWAPPED.format(reads="x") + """
        out_2 = _CopyFromGpuToHost(x)
        in_2 = _CopyFromHostToGpu(out_2, ^in)
        z = Neg(in_2)
        last = NoOp(^out)
    """
    after = {node.name: list(node.input) for node in undone(graph_of(text)).node}
    assert after["y"] == ["x", "a:0", "^c"]
    assert after["z"] == ["x:0", "^a", "^c"]
    assert after["last"] == ["^a"]


def test_copies_that_somebody_wants_stay() -> None:
    graph = graph_of(SWAPPED.format(reads="c"))
    assert undone(graph, frozenset({"out"})) == graph
    asked = graph_of(SWAPPED.format(reads="c"))
    asked.node[-1].attr["_swap_to_host"].i = 1
    assert undone(asked) == asked
    read = graph_of(SWAPPED.format(reads="c") + "host = Identity(out)")
    assert undone(read) == read
