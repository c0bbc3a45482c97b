"""While ops become loops of Enter, Merge, Switch, NextIteration and Exit that compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.frontend.tensorflow.control_flow import WHILES
from tf_stitch.graph.loops.function_inlining import known_function
from tf_stitch.graph.loops.functional_loops import lower_loops
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.state import GraphState

START = (0, 5, np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32))


def with_while(body: Callable[..., Any], condition: Callable[..., Any] = lambda i, n, *_: i < n, device: str = ""
               ) -> tf.Graph:
    """A graph with a While op over placeholders a0 to a3; results are r0 to r3."""
    specs = [tf.TensorSpec(np.shape(x), np.asarray(x).dtype if np.ndim(x) else tf.int32) for x in START]
    functions = [tf.function(f).get_concrete_function(*specs) for f in (condition, body)]
    graph = tf.Graph()
    with graph.as_default(), tf.device(device):
        for function in functions:
            function.add_to_graph(graph)
        values = [tf.compat.v1.placeholder(s.dtype, s.shape, f"a{k}") for k, s in enumerate(specs)]
        results = tf.raw_ops.While(input=values, cond=functions[0], body=functions[1], name="loop")
        for k, result in enumerate(results):
            tf.identity(result, f"r{k}")
        with tf.control_dependencies([results[0].op]):
            tf.no_op("behind")
    return graph


def lower(graph: tf.Graph, preserved: frozenset[str] = frozenset(), function_of: Any = known_function) -> LoopChange:
    return lower_loops(GraphState(graph.as_graph_def(), types_of_graph(graph), preserved), function_of)


def run(graph_def: Any, *fetches: str) -> list[Any]:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        feeds = {f"a{k}:0": value for k, value in enumerate(START)}
        results: list[Any] = session.run(list(fetches), feeds)
        return results


@tf.function
def inner(x: Any, y: Any) -> Any:
    parts = tf.split(x * y, 2)
    return parts[1][0], tf.concat(parts[::-1], 0)


def step(i: Any, n: Any, x: Any, y: Any) -> Any:
    """Calls another function, passes a value on, and gives one for another."""
    last, x = inner(x, y)
    return i + 1, n, tf.tanh(x) + tf.constant(0.5), last


@pytest.mark.parametrize("kept", [frozenset[str](), frozenset({"loop"})])
def test_the_same_results(kept: frozenset[str]) -> None:
    graph = with_while(step)
    wanted = run(graph.as_graph_def(), *(f"r{k}:0" for k in range(4)))
    lowered = lower(graph, kept)
    assert set(lowered.changed) == {"loop"}
    assert not lowered.stay
    ops = {node.name: node.op for node in lowered.state.graph_def.node}
    assert not WHILES & set(ops.values())
    assert ("loop" in ops) == bool(kept)
    assert "loop/exit_1" not in ops  # no iteration changes it
    for got, value in zip(run(lowered.state.graph_def, *(f"r{k}:0" for k in range(4))), wanted, strict=True):
        np.testing.assert_array_equal(got, value)
    behind = next(node for node in lowered.state.graph_def.node if node.name == "behind")
    assert list(behind.input) == ["^loop" if kept else "^loop/exit_0"]
    for node in lowered.state.graph_def.node:
        types = lowered.state.types_of(node.name)
        assert len(types) == len(_outputs(lowered.state.graph_def, node.name))
        assert [tf.as_dtype(enum) for enum, _ in types] == _outputs(lowered.state.graph_def, node.name)


def _outputs(graph_def: Any, name: str) -> list[Any]:
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        return [output.dtype for output in graph.get_operation_by_name(name).outputs]


def test_on_a_gpu_what_has_no_kernel_there_is_beside_it() -> None:
    def body(i: Any, n: Any, x: Any, y: Any) -> Any:
        return i + 1, n, x * 2, tf.cast(tf.strings.to_number(tf.strings.as_string(y)), tf.float32)

    lowered = lower(with_while(body, device="/job:localhost/replica:0/task:0/device:GPU:0"))
    devices = {node.op: node.device for node in lowered.state.graph_def.node if node.name.startswith("loop/")}
    assert devices["Mul"].endswith("task:0/device:GPU:0")
    assert devices["StringToNumber"].endswith("task:0/device:CPU:0")


def printing(i: Any, n: Any, x: Any, y: Any) -> Any:
    tf.print(i)
    return i + 1, n, x, y


def test_a_function_that_does_more_stays() -> None:
    graph = with_while(printing)
    lowered = lower(graph)
    assert not lowered.changed
    assert lowered.state.graph_def == graph.as_graph_def()
    assert "does more than give results" in lowered.stay["loop"]


def test_a_function_that_nobody_knows_stays() -> None:
    lowered = lower(with_while(step), function_of=lambda name: None)
    assert "is not known to Python" in lowered.stay["loop"]


def test_one_for_xla_stays() -> None:
    graph_def = with_while(step).as_graph_def()
    next(node for node in graph_def.node if node.op in WHILES).attr["_XlaMustCompile"].b = True
    lowered = lower_loops(GraphState(graph_def, lambda name: [], frozenset()), known_function)
    assert lowered.stay == {"loop": "XLA compiles it"}


def test_names_that_are_taken() -> None:
    graph = with_while(step)
    with graph.as_default():
        tf.no_op("loop/pivot")
    assert lower(graph).stay == {"loop": "a node is called loop/pivot"}
