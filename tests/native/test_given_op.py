"""What stands for a control edge between devices is still there when TensorFlow has optimized the graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from tensorflow.python.grappler import tf_optimizer

from tests.native.conftest import Regions


def between_devices(give: Callable[[], tf.Tensor], take: Callable[[tf.Tensor], tf.Operation]) -> list[str]:
    """What goes from one device to the other after TensorFlow's passes, `^` before an op that nothing is read of."""
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1  # it leaves smaller ones alone
    config.graph_options.rewrite_options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.TWO
    with tf.Graph().as_default() as graph:
        with tf.device("/CPU:0"), tf.control_dependencies([tf.raw_ops.MutexV2()]):
            given = give()
        with tf.device("/CPU:1"), tf.control_dependencies([take(given)]):
            end = tf.no_op(name="end")
        meta = tf.compat.v1.train.export_meta_graph(graph=graph)
    meta.collection_def["train_op"].node_list.value.append(end.name)
    nodes = {node.name: node for node in tf_optimizer.OptimizeGraph(config, meta).node}
    return [("^" if name.startswith("^") else "") + nodes[name.removeprefix("^")].op for node in nodes.values()
            for name in node.input if node.device.endswith("CPU:1") and "CPU:0" in nodes[name.removeprefix("^")].device]


def test_no_control_edge_comes_back(regions: Regions) -> None:
    ops = regions.library.raw_ops
    assert between_devices(ops.stitch_given, lambda given: ops.stitch_taken(given=given)) == ["StitchGiven"]


@pytest.mark.parametrize("constant", [False, True])
def test_it_would_with_ops_of_tensorflow(regions: Regions, constant: bool) -> None:
    give = (lambda: tf.constant(0)) if constant else regions.library.raw_ops.stitch_given
    [edge] = between_devices(give, lambda given: tf.identity(given).op)
    assert edge.startswith("^")


def test_it_is_a_number(regions: Regions) -> None:
    number = regions.library.raw_ops.stitch_given()
    assert int(number) == 0
    regions.library.raw_ops.stitch_taken(given=number)
