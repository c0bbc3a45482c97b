"""What stands for a control edge between devices is still there when TensorFlow has optimized the graph."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.grappler import tf_optimizer

from tests.native.conftest import Regions


def optimized(given: object) -> list[str]:
    """Data that reaches the end of a graph, after TensorFlow's passes, by the ops that it comes from."""
    graph = tf.compat.v1.get_default_graph()
    with tf.device("/CPU:1"), tf.control_dependencies([tf.identity(given, name="here")]):
        end = tf.no_op(name="end")
    meta = tf.compat.v1.train.export_meta_graph(graph=graph)
    meta.collection_def["train_op"].node_list.value.append(end.name)
    nodes = {node.name: node for node in tf_optimizer.OptimizeGraph(config_pb2.ConfigProto(), meta).node}
    [before] = nodes["end"].input
    return [nodes[name].op for name in nodes[before.removeprefix("^")].input]


def test_nothing_folds_it(regions: Regions) -> None:
    with tf.Graph().as_default(), tf.device("/CPU:0"):
        assert optimized(regions.library.raw_ops.stitch_given()) == ["StitchGiven"]
    with tf.Graph().as_default(), tf.device("/CPU:0"):
        first = tf.raw_ops.MutexV2()
        with tf.control_dependencies([first]):
            assert optimized(tf.constant(0)) != ["Const"]  # a constant is not there any more


def test_it_is_a_number(regions: Regions) -> None:
    assert int(regions.library.raw_ops.stitch_given()) == 0
