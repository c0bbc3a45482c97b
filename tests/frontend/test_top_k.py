"""TopKV2 against TensorFlow's CPU kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace, types_of_graph
from tests.frontend.values import normal
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.frontend.tensorflow.legalize.top_k import LONG_ROW, MOST_COMPARED, MOST_ROUNDS
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret

INF = np.inf
LONG = LONG_ROW + 29  # a prime: chunks do not fit
TIES = np.random.default_rng(0).integers(0, 4, (3, 40)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_types(dtype: str, k: int) -> None:
    check(lambda x: tf.math.top_k(x, k), normal((2, 4, 7), dtype), rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("length", [LONG_ROW, LONG])
@pytest.mark.parametrize("k", [1, 4, MOST_ROUNDS])
def test_long_rows(dtype: str, length: int, k: int) -> None:
    check(lambda x: tf.math.top_k(x, k), normal((3, length), dtype), rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("k", [MOST_ROUNDS + 1, MOST_COMPARED["CPU"]])
def test_short_rows_are_sorted(dtype: str, k: int) -> None:
    check(lambda x: tf.math.top_k(x, k), normal((2, 3, MOST_COMPARED["CPU"]), dtype), rtol=0)
    check(lambda x: tf.math.top_k(x, k), (normal((2, 3, MOST_COMPARED["CPU"])) * 2).astype(np.int32).astype(dtype),
          rtol=0)


def test_index_types() -> None:
    for dtype in (tf.int32, tf.int64):
        check(lambda x, d=dtype: tf.raw_ops.TopKV2(input=x, k=2, index_type=d), normal((3, 5)))


def rows_with(value: float) -> Any:
    """Rows, all but 0, 1, 2 and 3 of whose elements are `value`."""
    x = np.full((4, LONG), value, np.float32)
    x[1, 7] = x[2, LONG - 1] = x[3, 500] = 1
    x[2, 3] = x[3, 501] = x[3, 499] = -1
    return x


@pytest.mark.parametrize("x", [TIES, np.zeros((2, 5), np.float32), np.tile(TIES, (1, LONG_ROW // 8)), rows_with(-INF),
                               rows_with(-INF)[:, 497:503], rows_with(INF), rows_with(0), rows_with(-1)],
                         ids=["ties", "equal", "ties_long", "low_long", "low", "high", "zero", "other"])  # fmt: skip
@pytest.mark.parametrize("k", [1, 2, 5])
def test_ties_and_infinities(x: Any, k: int) -> None:
    """The lower index first; -inf is taken when nothing else is left, with indices of its own."""
    check(lambda x: tf.math.top_k(x, k), x, rtol=0)


def test_the_lowest_integers() -> None:
    x = np.full((2, LONG), np.iinfo(np.int32).min, np.int32)
    x[1, 900] += 1
    check(lambda x: tf.math.top_k(x, 3), x)
    check(lambda x: tf.math.top_k(x, 3), x[:, 898:903])


@pytest.mark.parametrize("length", [6, LONG])
def test_nan_comes_first(length: int) -> None:
    """As in XLA; TensorFlow's CPU kernel has no order there."""
    x = np.full((3, length), -INF, np.float32)
    x[0, [1, 4]], x[1, 5], x[2] = np.nan, np.nan, np.nan
    x[0, 2], x[1, 0] = 7, INF
    traced = trace(lambda x: tf.math.top_k(x, 4), tf.TensorSpec(x.shape, x.dtype))
    values, places = (traced.imported.value(t.name) for t in traced.concrete.graph.outputs)
    assert values is not None
    assert places is not None
    got = interpret(TensorGraph("top_k", [("values", values), ("places", places)]), {"x:0": x})
    np.testing.assert_array_equal(got["places"], [[1, 4, 2, 0], [5, 0, 1, 2], [0, 1, 2, 3]])
    np.testing.assert_array_equal(got["values"], np.take_along_axis(x, got["places"], 1))


@pytest.mark.parametrize("length", [6, LONG])
def test_unknown_sizes(length: int) -> None:
    spec = tf.TensorSpec([None, None, length], tf.float32)
    check(lambda x: tf.math.top_k(x, 2), normal((2, 3, length)), specs=[spec], rtol=0)
    check(lambda x: tf.math.top_k(x, 2), normal((length,)), rtol=0)


@pytest.mark.parametrize(("k", "shape", "reason"), [
    (0, (2, 5), "k = 0 of 5"), (MOST_ROUNDS + 1, (2, 99), "is more than 16"), (2, (None, None), "TopKV2 of float32"),
])  # fmt: skip
def test_what_stays(k: int, shape: tuple[int | None, ...], reason: str) -> None:
    (why,) = trace(lambda x: tf.math.top_k(x, k), tf.TensorSpec(shape, tf.float32)).opaque().values()
    assert reason in str(why)


def test_k_may_be_of_any_type() -> None:
    check(lambda x: tf.raw_ops.TopKV2(input=x, k=np.int64(2)), normal((3, 5)))


def test_a_gpu_sorts_whatever_it_is_told() -> None:
    function = tf.function(lambda x: tf.math.top_k(x, 4, sorted=False))
    graph = function.get_concrete_function(tf.TensorSpec(TIES.shape)).graph
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.device = "/device:GPU:0"
    found = import_graph(graph_def, types_of_graph(graph))
    values = [found.value(t.name) for t in graph.outputs]
    region = TensorGraph("best", [(str(i), v) for i, v in enumerate(values) if v is not None])
    got = interpret(region, {graph.inputs[0].name: TIES})
    for i, want in enumerate(tf.math.top_k(TIES, 4)):
        np.testing.assert_array_equal(got[str(i)], want)


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")
@pytest.mark.parametrize("length", [40, 5000])
def test_so_does_tensorflow(length: int) -> None:
    x = np.random.default_rng(1).integers(0, 50, (3, length)).astype(np.float32)
    with tf.device("/GPU:0"):
        ordered, any_order = (tf.math.top_k(tf.constant(x), 9, sorted=flag) for flag in (True, False))
    for one, other in zip(ordered, any_order, strict=True):
        np.testing.assert_array_equal(one, other)
