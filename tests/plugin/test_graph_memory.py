"""What a graph takes in memory when TensorFlow runs it, by hand for small graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.graph_item import OutputType
from tf_stitch.plugin.graph_memory import Types, live_bytes

KIB = 1024
UNKNOWN = -7


def graph_of(make: Callable[..., object], *shapes: Sequence[int | None]) -> tuple[GraphDef, Types]:
    """A graph on a GPU, and its types as the hook has them: what is unknown to it is UNKNOWN."""
    graph = tf.Graph()
    with graph.as_default(), tf.device("/device:GPU:0"):
        values = [tf.raw_ops.Placeholder(dtype=tf.float32, shape=shape, name=f"x{i}") for i, shape in enumerate(shapes)]
        made = make(*values)
        for i, value in enumerate(made if isinstance(made, (list, tuple)) else [made]):
            tf.raw_ops.Identity(input=value, name=f"result{i}")
    definition = graph.as_graph_def()
    for node in definition.node:
        node.op = {"Placeholder": "_Arg"}.get(node.op, "_Retval" if node.name.startswith("result") else node.op)

    def types(name: str) -> list[OutputType]:
        outputs = graph.get_operation_by_name(name).outputs
        return [(tensor.dtype.as_datatype_enum, None if tensor.shape.rank is None else
                 tuple(UNKNOWN if size is None else size for size in tensor.shape)) for tensor in outputs]

    return definition, types


def took(make: Callable[..., object], *shapes: Sequence[int | None], sizes: dict[int, int] | None = None) -> int | None:
    return live_bytes(*graph_of(make, *shapes), sizes or {})


def test_a_value_lives_until_its_last_reader_and_arguments_are_not_the_graphs() -> None:
    def chain(x: tf.Tensor) -> tf.Tensor:
        for _ in range(9):
            x = tf.raw_ops.Tanh(x=x)
        return x

    assert took(chain, [256]) == 2 * KIB, "what is read, and what is written"


def test_values_that_are_read_late_are_there_together() -> None:
    def saved(x: tf.Tensor) -> tf.Tensor:
        values = [x]
        for _ in range(4):
            values.append(tf.raw_ops.Tanh(x=values[-1]))
        gradient = values[-1]
        for value in reversed(values[1:]):
            gradient = tf.raw_ops.TanhGrad(y=value, dy=gradient)
        return gradient

    assert took(saved, [256]) == 5 * KIB


def test_views_take_nothing_and_keep_what_they_are_of() -> None:
    def viewed(x: tf.Tensor) -> list[tf.Tensor]:
        long = tf.raw_ops.Tanh(x=x)
        view = tf.raw_ops.Squeeze(input=tf.raw_ops.Identity(input=long))
        return [tf.raw_ops.Sum(input=tf.raw_ops.Exp(x=view), axis=[0])]

    assert took(viewed, [1, 256]) == 2 * KIB + 4, "with the axis, which is a constant"


def test_constants_and_results_stay() -> None:
    def make(x: tf.Tensor) -> list[tf.Tensor]:
        table = tf.raw_ops.AddV2(x=x, y=tf.constant(1.0, shape=[256]))
        return [table, tf.raw_ops.Exp(x=tf.raw_ops.Exp(x=tf.raw_ops.Exp(x=x)))]

    assert took(make, [256]) == 4 * KIB, "constant, first result, and two of the chain"


def test_what_an_optional_holds_stays() -> None:
    def make(x: tf.Tensor) -> list[tf.Tensor]:
        held = tf.raw_ops.OptionalFromValue(components=[tf.raw_ops.Tanh(x=x)])
        with tf.control_dependencies([held]):
            return [held, tf.raw_ops.Exp(x=tf.raw_ops.Exp(x=tf.raw_ops.Exp(x=x)))]

    assert took(make, [256]) == 3 * KIB, "the value, and two of the chain"


def test_a_value_that_nobody_reads_counts_while_it_is_made() -> None:
    def make(x: tf.Tensor) -> tf.Tensor:
        values, _ = tf.raw_ops.TopKV2(input=x, k=256)
        return tf.raw_ops.Exp(x=values)

    assert took(make, [256]) == 2 * KIB + 4


def test_what_is_on_the_host_does_not_count() -> None:
    def make(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/device:CPU:0"):
            return tf.raw_ops.Exp(x=tf.raw_ops.Exp(x=x))

    assert took(make, [256]) == 0


@pytest.mark.parametrize(("sizes", "bytes_"), [({}, None), ({UNKNOWN: 256}, 2 * KIB)])
def test_unknown_sizes_are_those_of_the_arguments(sizes: dict[int, int], bytes_: int | None) -> None:
    assert took(lambda x: tf.raw_ops.Exp(x=tf.raw_ops.Exp(x=x)), [None], sizes=sizes) == bytes_


def test_of_other_functions_and_loops_nobody_knows() -> None:
    inner = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([4], tf.float32))
    assert took(lambda x: tf.raw_ops.StatefulPartitionedCall(args=[x], Tout=[tf.float32], f=inner)[0], [4]) is None
    with tf.Graph().as_default() as graph:
        tf.compat.v1.disable_control_flow_v2()
        try:
            tf.while_loop(lambda x: x < 9.0, lambda x: x + 1.0, [tf.constant(0.0)])
        finally:
            tf.compat.v1.enable_control_flow_v2()
    assert live_bytes(graph.as_graph_def(), lambda name: [(tf.float32.as_datatype_enum, ())], {}) is None
