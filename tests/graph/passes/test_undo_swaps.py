"""What TensorFlow's memory optimizer copies to the host and back stays on the GPU, and nobody loses its place in the
order."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.device_properties_pb2 import DeviceProperties, NamedDevice
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.framework import meta_graph
from tensorflow.python.grappler import cluster, tf_optimizer

from tests.graph.graphs import graph_of, text_of
from tf_stitch.graph.passes.undo_swaps import UndoSwaps
from tf_stitch.graph.state import GraphState

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
PLENTY, TIGHT = 1 << 40, 100 << 20
LAYERS, ROWS, WIDTH = 6, 8192, 256
COPIES = ("_CopyFromGpuToHost", "_CopyFromHostToGpu")


def trained() -> MetaGraphDef:
    """The gradients of a network that keeps some 50 MiB for each layer."""
    with tf.Graph().as_default() as graph, tf.device(GPU):
        y = tf.compat.v1.placeholder(tf.float32, [ROWS, WIDTH], "x")
        weights = [tf.compat.v1.placeholder(tf.float32, [WIDTH, WIDTH], f"w_{i}") for i in range(LAYERS)]
        for weight in weights:
            y += tf.nn.gelu(y @ weight)
        for gradient in tf.compat.v1.gradients(tf.reduce_sum(y * y), weights):
            tf.compat.v1.add_to_collection("train_op", gradient)
        return meta_graph.create_meta_graph_def(graph=graph)


def optimized(program: MetaGraphDef, nbytes: int) -> GraphDef:
    """The graph that TensorFlow makes of a program, for a GPU that this machine need not have."""
    properties = DeviceProperties(type="GPU", frequency=1000, num_cores=60, memory_size=nbytes,
                                  environment={"architecture": "7"})
    config = ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    gpu = cluster.Cluster(devices=[NamedDevice(name=GPU, properties=properties)])
    return tf_optimizer.OptimizeGraph(config, program, cluster=gpu)


def undone(before: GraphDef, preserved: frozenset[str] = frozenset()) -> GraphDef:
    result = UndoSwaps().run(GraphState(before, lambda name: [], preserved))
    assert result.modified is (result.graph.graph_def != before)
    return result.graph.graph_def


def test_a_step_is_the_same_however_little_memory_there_is() -> None:
    def edges(graph: GraphDef) -> dict[str, list[str]]:
        return {node.name: sorted(edge.removesuffix(":0") for edge in node.input) for node in graph.node}

    program = trained()
    plenty, tight = optimized(program, PLENTY), optimized(program, TIGHT)
    assert sum(node.op in COPIES for node in tight.node) > 2 * LAYERS
    assert edges(undone(tight)) == edges(plenty)
    assert undone(plenty) == plenty


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
