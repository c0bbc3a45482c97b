"""Where a node runs: on which sides of branches."""

from __future__ import annotations

import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.frontend.tensorflow.control_context import control_contexts, frame_names
from tf_stitch.graph.state import GraphState

v1 = tf.compat.v1


def test_a_merge_is_where_its_values_are_whatever_it_waits_for() -> None:
    """A branch in a branch, whose end waits for a node that always runs: a dead control input does not end a Merge, and
    a live one does not make it run."""
    with tf.Graph().as_default() as graph:
        x, outer, inner = (v1.placeholder(dtype, (), name) for dtype, name in
                           ((tf.float32, "x"), (tf.bool, "outer"), (tf.bool, "inner")))
        always = tf.exp(x, "always")
        _, taken = tf.raw_ops.Switch(data=x, pred=outer)
        false, true = tf.raw_ops.Switch(data=taken, pred=inner)
        sides = [tf.sin(false), tf.cos(true)]
        with tf.control_dependencies([always]):
            tf.raw_ops.Merge(inputs=sides, name="merged")
    definition = graph.as_graph_def()
    imported = GraphState(definition, types_of_graph(graph), frozenset()).imported
    contexts = control_contexts(imported, frame_names(definition))
    assert contexts["merged"] == {("if:outer:0", "1")}
    assert contexts["always"] == frozenset()
