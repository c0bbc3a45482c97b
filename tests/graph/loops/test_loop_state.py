"""Variables that a loop alone reads and assigns are carried by it, and have the same values then and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.python.ops import control_flow_util

from tests.frontend.check import types_of_graph
from tf_stitch.frontend.tensorflow.imported_graph import topological
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame, loop_frames, why_not_unrolled
from tf_stitch.graph.finish.validation import validate_graph
from tf_stitch.graph.loops.loop_state import carry_state
from tf_stitch.graph.state import GraphState

tf1 = tf.compat.v1
Body = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def lowered_loops() -> Iterator[None]:
    """As TensorFlow lowers them before the hook sees them."""
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = False
    yield
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = before


def set_to(variable: Any, value: Any) -> Any:
    return tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


def draws(variable: Any, x: Any) -> Any:
    """Reads what there is, and adds one."""
    old, again = variable.read_value(), variable.read_value()
    with tf.control_dependencies([old, again]):
        assign = set_to(variable, old + 1.0)
    with tf.control_dependencies([assign]):
        return tf.identity(x * 2 + again)


def reads_after(variable: Any, x: Any) -> Any:
    with tf.control_dependencies([set_to(variable, x)]):
        return x + variable.read_value()


def only_assigns(variable: Any, x: Any) -> Any:
    """Perhaps what has no value yet."""
    with tf.control_dependencies([set_to(variable, x)]):
        return tf.identity(x + 1)


def traced(body: Body, trips: int = 3, elsewhere: bool = False) -> GraphState:
    """A loop that uses a variable "v", which starts at 5; "y" is its result."""
    with tf.Graph().as_default() as graph:
        variable = tf1.get_variable("v", initializer=tf.constant(5.0), use_resource=True)
        before = variable.read_value() if elsewhere else tf.constant(0.0)
        with tf.control_dependencies([before]):
            y = tf1.while_loop(lambda i, x: i < trips, lambda i, x: (i + 1, body(variable, x)),
                               (0, tf.constant(1.0)), parallel_iterations=1)[1]  # one after the other
        tf.identity(y, "y")
        graph_def = graph.as_graph_def()
    # What makes the variable and asks for it stands in another graph.
    own = {"v/IsInitialized/VarIsInitializedOp", "v/Assign", "v/Read/ReadVariableOp", "Const"}
    kept = [node for node in graph_def.node if node.name not in own]
    del graph_def.node[:]
    graph_def.node.extend(kept)
    with tf.Graph().as_default() as alone:
        tf.graph_util.import_graph_def(graph_def, name="")
    return GraphState(alone.as_graph_def(), types_of_graph(alone), frozenset({"y"}))


def results(graph_def: GraphDef) -> list[float]:
    """Of two calls, each with the variable's value afterwards."""
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        handle = graph.get_tensor_by_name("v:0")
        start = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(5.0))
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        with tf1.Session(graph=graph) as session:
            session.run(start)
            return [session.run(name) for _ in range(2) for name in ("y:0", value.name)]


def reasons(graph_def: GraphDef) -> list[str | None]:
    frames = loop_frames(list(topological({node.name: node for node in graph_def.node}))).values()
    return [why_not_unrolled(frame, ()) if isinstance(frame, LoopFrame) else frame for frame in frames]


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_same_values(trips: int) -> None:
    state = traced(draws, trips)
    found = carry_state(state)
    assert list(found.changed) == ["while/while_context"]
    validate_graph(state.graph_def, found.state.graph_def, state.preserved)
    assert results(found.state.graph_def) == results(state.graph_def)
    assert "keeps a state" in str(reasons(state.graph_def)[0])
    assert reasons(found.state.graph_def) == [None]
    for node in found.state.graph_def.node:
        assert node.op in ("NoOp", "AssignVariableOp") or found.state.types_of(node.name), node.name


@pytest.mark.parametrize(("body", "elsewhere"), [(reads_after, False), (only_assigns, False), (draws, True)],
                         ids=["order", "no reads", "elsewhere"])
def test_what_stays(body: Body, elsewhere: bool) -> None:
    state = traced(body, elsewhere=elsewhere)
    found = carry_state(state)
    assert not found.changed
    assert found.state is state


def test_loops_that_are_to_stay() -> None:
    state = traced(draws)
    assert not carry_state(state, but=["while/while_context"]).changed
    read = next(node.name for node in state.graph_def.node if node.op == "ReadVariableOp")
    fetched = GraphState(state.graph_def, state.types_of, frozenset({"y", read}))
    assert not carry_state(fetched).changed
