"""Nodes that a session is fed: placeholders, without what leads to them alone."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.errors import GraphLeftAloneError
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.passes.cut_feeds import CutFeeds
from tf_stitch.graph.state import GraphState


def types(_: str) -> list[OutputType]:
    return [(types_pb2.DT_FLOAT, (-5, 6))]


def item(feeds: set[str], fetches: set[str], control: str = "twice") -> GraphState:
    """x -> sin -> exp -> twice, one -> other, control -> other"""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 6], name="x")
        exp = tf.exp(tf.sin(x, name="sin"), name="exp")
        tf.multiply(exp, 2.0, name="twice")
        one = tf.constant(1.0, name="one")
        with tf.control_dependencies([graph.get_operation_by_name(control)]):
            tf.cosh(one, name="other")
    graph_def = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    return GraphState(graph_def, types, frozenset(feeds | fetches), feeds=frozenset(feeds))


def cut(state: GraphState) -> GraphState:
    before = state.graph_def.SerializeToString(deterministic=True)
    result = CutFeeds().run(state)
    assert state.graph_def.SerializeToString(deterministic=True) == before
    assert result.modified is (result.graph.graph_def != state.graph_def)
    return result.graph


def ops(graph: GraphState) -> dict[str, str]:
    return {n.name: n.op for n in graph.graph_def.node}


def test_a_fed_node_becomes_a_placeholder() -> None:
    graph = cut(item({"exp"}, {"twice"}))
    node = next(n for n in graph.graph_def.node if n.name == "exp")
    assert (node.op, list(node.input), node.attr["dtype"].type) == ("Placeholder", [], types_pb2.DT_FLOAT)
    assert [d.size for d in node.attr["shape"].shape.dim] == [-1, 6]


def test_what_only_leads_to_it_goes() -> None:
    graph = cut(item({"exp"}, {"twice"}))
    assert ops(graph).keys() == {"exp", "twice/y", "twice", "one", "other"}


def test_what_somebody_else_needs_stays() -> None:
    graph = cut(item({"exp"}, {"twice", "other"}, control="sin"))
    assert ops(graph)["sin"] == "Sin"
    fetched = cut(item({"exp"}, {"twice", "sin"}))
    assert ops(fetched).keys() >= {"x", "sin"}


def test_a_fed_node_that_others_wait_for_is_left_to_tensorflow() -> None:
    with pytest.raises(GraphLeftAloneError, match="exp is fed, and other does not read what is fed"):
        cut(item({"exp"}, {"other"}, control="exp"))


def test_placeholders_stay() -> None:
    graph = item({"x"}, {"twice"})
    assert cut(graph) is graph
