"""Nodes that a session is fed: placeholders, without what leads to them alone."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.graph_item import GraphItem, OutputType, TypesOfNodes
from tf_stitch.graph.passes.feeds import cut_feeds


def types(_: str) -> list[OutputType]:
    return [(types_pb2.DT_FLOAT, (-5, 6))]


def item(feeds: set[str], fetches: set[str], control: str = "twice") -> GraphItem:
    """x -> sin -> exp -> twice, one -> other, control -> other"""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 6], name="x")
        exp = tf.exp(tf.sin(x, name="sin"), name="exp")
        tf.multiply(exp, 2.0, name="twice")
        one = tf.constant(1.0, name="one")
        with tf.control_dependencies([graph.get_operation_by_name(control)]):
            tf.cosh(one, name="other")
    graph_def = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    return GraphItem(graph_def, frozenset(feeds | fetches), "tf_graph", "CPU", False, TypesOfNodes(types),
                     frozenset(feeds))


def ops(graph: GraphItem) -> dict[str, str]:
    return {n.name: n.op for n in graph.graph_def.node}


def test_a_fed_node_becomes_a_placeholder() -> None:
    graph = item({"exp"}, {"twice"})
    assert cut_feeds(graph) is None
    node = next(n for n in graph.graph_def.node if n.name == "exp")
    assert (node.op, list(node.input), node.attr["dtype"].type) == ("Placeholder", [], types_pb2.DT_FLOAT)
    assert [d.size for d in node.attr["shape"].shape.dim] == [-1, 6]


def test_what_only_leads_to_it_goes() -> None:
    graph = item({"exp"}, {"twice"})
    cut_feeds(graph)
    assert ops(graph).keys() == {"exp", "twice/y", "twice", "one", "other"}


def test_what_somebody_else_needs_stays() -> None:
    graph = item({"exp"}, {"twice", "other"}, control="sin")
    assert cut_feeds(graph) is None
    assert ops(graph)["sin"] == "Sin"
    fetched = item({"exp"}, {"twice", "sin"})
    assert cut_feeds(fetched) is None
    assert ops(fetched).keys() >= {"x", "sin"}


def test_a_fed_node_that_others_wait_for_is_left_to_tensorflow() -> None:
    graph = item({"exp"}, {"other"}, control="exp")
    before = ops(graph)
    assert cut_feeds(graph) == "exp is fed, and other does not read what is fed (^exp)"
    assert ops(graph) == before


def test_placeholders_stay() -> None:
    graph = item({"x"}, {"twice"})
    before = graph.graph_def.SerializeToString(deterministic=True)
    assert cut_feeds(graph) is None
    assert graph.graph_def.SerializeToString(deterministic=True) == before
