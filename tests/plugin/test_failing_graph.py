"""A graph that fails when it runs, with the reason."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.plugin.failing_graph import NAME, failing_graph


def graph() -> GraphDef:
    with tf.Graph().as_default() as made:
        x = tf.compat.v1.placeholder(tf.float32, [2], name="x")
        tf.tanh(tf.exp(x, name="between"), name="out")
    return GraphDef.FromString(made.as_graph_def().SerializeToString())


def test_running_it_raises_the_message() -> None:
    failing = failing_graph(graph(), frozenset({"x", "out"}), "a reason in words")
    with tf.Graph().as_default() as made, tf.compat.v1.Session(graph=made) as session:
        tf.graph_util.import_graph_def(failing, name="")
        with pytest.raises(tf.errors.InvalidArgumentError, match="a reason in words"):
            session.run("out:0", {"x:0": [1.0, 2.0]})


def test_only_results_wait_for_the_failure() -> None:
    before = graph()
    failing = failing_graph(before, frozenset({"x", "out"}), "why")
    waiting = {n.name for n in failing.node if f"^{NAME}" in n.input}
    assert waiting == {"out"}
    assert all(f"^{NAME}" not in n.input for n in before.node), "the graph given is left as it was"
