"""Sums come back that TensorFlow's memory optimizer has taken apart, and what somebody else reads of one stays."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.passes.restore_sums import RestoreSums
from tf_stitch.graph.state import GraphState


def taken_apart(start_with: float | None = None) -> GraphDef:
    """x + 2 x + 3 x, as TensorFlow makes it of an AddN.

    Args:
        start_with: a constant that the terms are added to; None: zeros.
    """
    raw = tf.raw_ops
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2], "x")
        terms = [tf.multiply(x, float(i), name=f"term_{i}") for i in range(1, 4)]
        with tf.control_dependencies([terms[1]]):
            variable = raw.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="sum", name="sum/tmp_var")
        zeros = raw.ZerosLike(x=terms[1], name="sum/tmp_var_zeros") if start_with is None else \
            tf.constant(start_with, shape=[2], name="sum/tmp_var_zeros")
        start = raw.Assign(ref=variable, value=zeros, name="sum/tmp_var_initializer")
        adds = [raw.AssignAdd(ref=start, value=term, name=f"sum/tmp_var_accum_{i}") for i, term in enumerate(terms)]
        with tf.control_dependencies(adds):
            whole = raw.DestroyTemporaryVariable(ref=start, var_name="sum", name="sum")
        tf.identity(whole, name="y")
        graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.attr.pop("_class", None)  # which the optimizer's have not
    return graph_def


def results(graph_def: GraphDef) -> list[float]:
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            values: list[float] = session.run("y:0", {"x:0": [1, 2]}).tolist()
            return values


def restored(before: GraphDef, preserved: frozenset[str] = frozenset()) -> GraphDef:
    result = RestoreSums().run(GraphState(before, lambda name: [], preserved))
    assert result.modified is (result.graph.graph_def != before)
    return result.graph.graph_def


@pytest.mark.parametrize("start_with", [None, 0.0], ids=["zeros", "folded"])
def test_a_sum_comes_back(start_with: float | None) -> None:
    before = taken_apart(start_with)
    after = restored(before)
    assert not [node.name for node in after.node if "tmp_var" in node.name]
    [node] = [node for node in after.node if node.op == "AddN"]
    assert list(node.input) == ["term_1", "term_2", "term_3", "^term_2"]
    assert results(after) == results(before) == [6, 12]


@pytest.mark.parametrize("part", ["sum/tmp_var", "sum/tmp_var_accum_1"])
def test_what_else_is_read_stays(part: str) -> None:
    before = taken_apart()
    assert restored(before, frozenset({part})) == before
    before.node.add(name="waits", op="NoOp", input=[f"^{part}"])
    assert restored(before) == before


def test_variables_of_the_user_stay() -> None:
    assert restored(more := taken_apart(1.0)) == more
    before = taken_apart()
    for node in before.node:
        if node.op == "Assign":
            node.input[1] = "term_3"
    assert restored(before) == before
