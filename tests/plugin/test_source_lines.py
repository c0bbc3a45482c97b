"""Files and lines of nodes, in functions that call each other."""

from __future__ import annotations

import tensorflow as tf

from tf_stitch.plugin.source_lines import source_lines


def test_nodes_of_a_function_have_their_line() -> None:
    function = tf.function(lambda x: tf.exp(x) * 2.0).get_concrete_function(tf.TensorSpec([3]))
    lines = source_lines(function.graph.as_graph_def().node, function.name.decode() if isinstance(function.name, bytes)
                         else function.name)
    assert lines["Exp"].startswith(f"{__file__}:")
    assert lines["Exp"] == lines["mul"]


def test_nodes_of_a_called_function_keep_theirs() -> None:
    """As TensorFlow names them where it has put the call's body in its place."""
    inner = tf.function(lambda x: tf.exp(x)).get_concrete_function(tf.TensorSpec([3]))
    graph = tf.compat.v1.GraphDef()
    node = graph.node.add(name="PartitionedCall/Exp", op="Exp")
    node.experimental_debug_info.original_node_names.append("Exp")
    node.experimental_debug_info.original_func_names.append(inner.name)
    assert source_lines(graph.node, "no such function")["PartitionedCall/Exp"].startswith(f"{__file__}:")


def test_graphs_of_sessions_have_none() -> None:
    with tf.Graph().as_default() as graph:
        tf.exp(tf.constant(1.0))
    assert source_lines(graph.as_graph_def().node, "tf_graph") == {}
