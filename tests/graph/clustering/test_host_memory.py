"""Small integers on a GPU: sizes stay in TensorFlow's host memory, what a region computes stays in regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import H200
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions, Regions
from tf_stitch.graph.clustering.eligibility import OUTSIDE
from tf_stitch.graph.clustering.host_memory import integers_on_host
from tf_stitch.graph.state import GraphState

WORDS = 50
ON_HOST = "TensorFlow has this small integer in host memory"


def rewritten(function: Callable[..., Any], *specs: tf.TensorSpec) -> tuple[Regions, dict[str, str]]:
    """What is found with every node on a GPU, but for arguments of int32; and the ops by node."""
    graph = tf.function(function).get_concrete_function(*specs).graph
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        given = node.op == "Placeholder" and node.attr["dtype"].type == tf.int32.as_datatype_enum
        node.device = f"/device:{'CPU' if given else 'GPU'}:0"
    state = GraphState(graph_def, types_of_graph(graph), frozenset())
    found = Clustering(state, ClusterOptions(1, {"GPU": H200.profile})).find()
    return found, {n.name: n.op for n in graph_def.node}


def decode(x: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """Two words for each sentence: [sentences, words] numbers to [sentences], as a beam search looks them up."""
    for _ in range(2):
        best = tf.cast(tf.round(tf.exp(x)), tf.int32)
        last = tf.reshape(best % WORDS, [-1])
        x = tf.reshape(tf.gather(table, tf.where(last < 0, last + WORDS, last)), tf.shape(x))
    return x


def test_what_a_decoder_finds_is_not_brought_to_the_host() -> None:
    found, ops = rewritten(decode, tf.TensorSpec([8, 1]), tf.TensorSpec([WORDS]))
    assert len(found.regions) == 1
    inside = [ops[member] for member in found.regions[0].members]
    assert inside.count("FloorMod") == inside.count("AddV2") == 2
    assert ON_HOST not in found.left_out.values()


def test_sizes_stay_there() -> None:
    def function(x: tf.Tensor, sizes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.exp(tf.tanh(x)), (sizes + 1) * 2

    found, ops = rewritten(function, tf.TensorSpec([8]), tf.TensorSpec([3], tf.int32))
    stay = {ops[name] for name, reason in found.left_out.items() if reason == ON_HOST}
    assert stay >= {"AddV2", "Mul"}


def test_no_region_raises_where_an_index_is_outside() -> None:
    """A GPU's kernels do not, and TensorFlow's op does: it stays, and what reads it."""
    found, ops = rewritten(lambda x, at: tf.exp(tf.tanh(tf.slice(x, tf.stack([0, at]), [2, 1]))),
                           tf.TensorSpec([2, 8]), tf.TensorSpec([], tf.int32))
    assert {ops[name] for name, reason in found.left_out.items() if reason == OUTSIDE} == {"Slice"}


def test_one_tensor_of_a_device_is_enough() -> None:
    def function(x: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        return sizes + tf.cast(tf.tanh(x), tf.int32)

    found, ops = rewritten(function, tf.TensorSpec([8]), tf.TensorSpec([8], tf.int32))
    assert {"Tanh", "Cast", "AddV2"} <= {ops[member] for region in found.regions for member in region.members}


def test_none_of_a_cpu_stays() -> None:
    graph = tf.function(lambda x: tf.cast(tf.tanh(x), tf.int32) + 1).get_concrete_function(tf.TensorSpec([8])).graph
    graph_def = graph.as_graph_def()
    imported = import_graph(graph_def, types_of_graph(graph))
    for node in graph_def.node:
        node.device = "/device:CPU:0"
    assert integers_on_host(imported, {n.name: n for n in graph_def.node}) == frozenset()


def columns(table: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Rows of a table for each column of numbers, as recommenders look them up."""
    return tf.add_n([tf.gather(table, tf.reshape(words[:, i], [-1])) for i in range(words.shape[1])])


@pytest.mark.parametrize("batch", [2048, None])
def test_a_column_of_words_is_data(batch: int | None) -> None:
    found, ops = rewritten(columns, tf.TensorSpec([WORDS, 4]), tf.TensorSpec([batch, 3], tf.int32))
    inside = [ops[member] for region in found.regions for member in region.members]
    assert inside.count("StridedSlice") == inside.count("GatherV2") == 3
    assert not [name for name in found.left_out if ops[name] == "StridedSlice" and found.left_out[name] == ON_HOST]


def test_lengths_that_a_size_is_made_of_stay() -> None:
    """The host is asked for the longest sentence; what is masked by lengths takes them along."""
    def function(x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        longer, other = lengths[:, 0] + 1, lengths[:, 1] + 1
        mask = tf.sequence_mask(other, x.shape[1], tf.float32)
        return tf.zeros([tf.reduce_max(longer)]), tf.tanh(x) * mask

    found, ops = rewritten(function, tf.TensorSpec([64, 8]), tf.TensorSpec([64, 2], tf.int32))
    added = [name for name in ops if ops[name] == "AddV2"]
    stay = [name for name in added if found.left_out.get(name) == ON_HOST]
    inside = {member for region in found.regions for member in region.members}
    assert (len(added), len(stay)) == (2, 1)
    assert set(added) - set(stay) <= inside
