"""Ops read sizes from arguments instead of from the work before them, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU
from tf_stitch.frontend.tensorflow.imported_graph import ImportedNode, producer_of
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import NO_MATMULS
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions
from tf_stitch.graph.clustering.region_graph import cut_region
from tf_stitch.graph.fallback.fallback_subgraph import fallback_subgraph
from tf_stitch.graph.shapes.argument_sizes import read_sizes_from_arguments
from tf_stitch.graph.state import GraphState

SPEC = tf.TensorSpec([None, 4])


def dropout(x: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.random.stateless_uniform(tf.shape(x), [1, 2]) < 0.5, x * 2.0, 0.0)


def step(x: tf.Tensor) -> tf.Tensor:
    return tf.tanh(dropout(tf.exp(dropout(tf.tanh(x)))))


class Resized:
    """A function's graph before and after."""

    def __init__(self, function: Callable[..., Any], *specs: tf.TensorSpec, preserved: frozenset[str] = frozenset(),
                 device: str = "/device:CPU:0") -> None:
        self.concrete = tf.function(function).get_concrete_function(*specs)
        graph = self.concrete.graph
        self.before = graph.as_graph_def()
        for node in self.before.node:
            node.device = device
        self.state = read_sizes_from_arguments(GraphState(self.before, types_of_graph(graph), preserved))
        self.after, self.imported = self.state.graph_def, self.state.imported

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def regions(self) -> int:
        return len(Clustering(self.state, ClusterOptions(1, {"CPU": CPU.profile})).find().regions)

    def run(self, graph_def: GraphDef, *arrays: Any) -> list[Any]:
        names = [t.name for t in self.concrete.graph.inputs]
        with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
            tf.graph_util.import_graph_def(graph_def, name="")
            fetched: list[Any] = session.run([t.name for t in self.concrete.graph.outputs],
                                             dict(zip(names, arrays, strict=True)))
            return fetched


def producer(graph_def: GraphDef, name: str) -> Any:
    return next(n for n in graph_def.node if n.name == name.partition(":")[0])


def test_a_step_with_dropouts_is_one_region() -> None:
    resized = Resized(step, SPEC)
    assert resized.regions() == 1
    shapes = [n for n in resized.after.node if n.op == "Shape"]
    assert [list(n.input) for n in shapes] == [["x:0"]]


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_same_results(rows: int) -> None:
    resized = Resized(step, SPEC)
    x = np.random.default_rng(0).standard_normal((rows, 4)).astype("f4")
    [before], [after] = resized.run(resized.before, x), resized.run(resized.after, x)
    np.testing.assert_array_equal(after, before)
    assert after.shape == (rows, 4)


def test_of_several_arguments() -> None:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return dropout(tf.exp(x)[:, None] + tf.exp(y)[None])

    resized = Resized(function, tf.TensorSpec([None]), tf.TensorSpec([None]))
    x, y = np.ones(3, "f4"), np.ones(5, "f4")
    [before], [after] = resized.run(resized.before, x, y), resized.run(resized.after, x, y)
    np.testing.assert_array_equal(after, before)
    assert sorted(n.input[0] for n in resized.after.node if n.op == "Shape") == ["x:0", "y:0"]


def test_sizes_that_data_decide_stay() -> None:
    resized = Resized(lambda x: dropout(tf.boolean_mask(tf.exp(x), tf.exp(x)[:, 0] > 1)), SPEC)
    [drawn] = [n for n in resized.after.node if n.op.startswith("StatelessRandomUniform")]
    before = producer(resized.before, drawn.name)
    assert drawn.input[0] == before.input[0]


def test_a_tensor_before_all_regions_will_do() -> None:
    """Of what is no argument's size: the slice cannot be in a region, so nothing in one comes before it."""
    resized = Resized(lambda x: tf.tanh(dropout(tf.exp(x[:-1]))), SPEC)
    assert resized.regions() == 1
    [shape] = [n for n in resized.after.node if n.op == "Shape"]
    assert producer(resized.after, shape.input[0]).op == "StridedSlice"
    for rows in (0, 1, 4):
        x = np.ones((rows, 4), "f4")
        np.testing.assert_array_equal(resized.run(resized.after, x), resized.run(resized.before, x))


def dense(x: tf.Tensor) -> tf.Tensor:
    """As Keras does with a tensor of rank 3."""
    flat = tf.reshape(tf.tanh(x), [-1, 4])
    return tf.reshape(flat * 2.0, tf.concat([tf.shape(x)[:-1], [4]], 0))


def test_a_tensor_between_regions_serves_those_behind_it() -> None:
    """A convolution gives a size of its own, for which two layers would each wait for the one before."""

    def function(x: tf.Tensor) -> tf.Tensor:
        x = tf.nn.conv1d(tf.tanh(x), tf.ones([3, 4, 4]), 2, "SAME")
        return tf.exp(dense(dense(tf.tanh(x))))

    resized = Resized(function, tf.TensorSpec([2, None, 4]))
    assert resized.regions() == 2
    [shape] = [n for n in resized.after.node if n.op == "Shape"]
    assert producer(resized.after, shape.input[0]).op in ("Conv2D", "Squeeze")
    for length in (1, 6):
        x = np.random.default_rng(0).standard_normal((2, length, 4)).astype("f4")
        np.testing.assert_array_equal(resized.run(resized.after, x), resized.run(resized.before, x))


def test_a_tensor_that_comes_too_late_is_not_waited_for() -> None:
    """Both have the size; but the second convolution waits for what the first one's rows are counted for."""

    def function(x: tf.Tensor) -> tf.Tensor:
        halves = tf.tanh(x)[:, ::2]
        counted = halves * tf.random.stateless_uniform(tf.shape(halves), [1, 2])
        return tf.exp(tf.nn.conv1d(counted, tf.ones([1, 4, 4]), 1, "SAME"))

    resized = Resized(function, tf.TensorSpec([2, None, 4]))
    x = np.ones((2, 6, 4), "f4")
    np.testing.assert_array_equal(resized.run(resized.after, x), resized.run(resized.before, x))


def test_who_is_waited_for_still_is() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        y = tf.exp(x)
        with tf.control_dependencies([tf.debugging.assert_greater(tf.reduce_max(y), 1.0)]):
            shape = tf.shape(y)
        return y * tf.random.stateless_uniform(shape, [1, 2])

    resized = Resized(function, SPEC)
    [drawn] = [n for n in resized.after.node if n.op.startswith("StatelessRandomUniform")]
    assert drawn.input[0] == producer(resized.before, drawn.name).input[0]


def test_branches_are_left_alone() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
        tf.compat.v1.disable_control_flow_v2()
        try:
            tf.compat.v1.cond(tf.reduce_sum(x) > 0, lambda: dropout(tf.exp(x)), lambda: x, name="cond")
        finally:
            tf.compat.v1.enable_control_flow_v2()
        with tf.name_scope("outside"):
            dropout(tf.exp(x))
    before = graph.as_graph_def()
    after = read_sizes_from_arguments(GraphState(before, types_of_graph(graph), frozenset())).graph_def
    was, now = ({n.name: n for n in g.node} for g in (before, after))
    changed = {name for name, node in was.items() if now.get(name) != node}
    assert any(n.op == "Switch" for n in before.node)
    assert changed
    assert all(name.startswith("outside/") for name in changed)


def test_new_names_are_new() -> None:
    """TensorFlow offers a graph again that has been changed."""
    resized = Resized(step, SPEC)
    late = resized.after.node.add(name="late", op="StatelessRandomUniform", device="/device:CPU:0")
    late.CopyFrom(next(n for n in resized.after.node if n.op.startswith("StatelessRandomUniform")))
    late.name = "late"
    shape = resized.after.node.add(name="late_shape", op="Shape", input=["Tanh:0"], device="/device:CPU:0")
    shape.attr["T"].type, shape.attr["out_type"].type = 1, 3
    late.input[0] = "late_shape"
    types = types_of_graph(resized.concrete.graph)
    of_new = {"late": [(1, (-1, 4))], "late_shape": [(3, (2,))]}

    def types_of(name: str) -> list[tuple[int, tuple[int, ...] | None]]:
        if name in of_new:
            return of_new[name]
        node = resized.imported.nodes[name]
        if name.startswith("tf_stitch_sizes/"):
            assert node.outputs[0] is not None
            return [(3, tuple(d if isinstance(d, int) else -1 for d in node.outputs[0].type.shape))]
        return types(name)

    again = read_sizes_from_arguments(GraphState(resized.after, types_of, frozenset())).graph_def
    names = [n.name for n in again.node]
    assert len(names) == len(set(names))
    assert "late_shape" not in names


def gradients(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """With reshapes to shapes of other tensors, and sizes that are numbers."""
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = tf.exp(dropout(tf.tanh(tf.reshape(x, [-1, 4]))) @ w) / tf.cast(tf.shape(x)[0], tf.float32)
        loss = tf.reduce_mean(tf.tanh(dropout(tf.transpose(y))))
    return loss, tape.gradient(loss, w)


@pytest.mark.parametrize(("function", "specs"), [
    (step, [SPEC]), (gradients, [tf.TensorSpec([None, 2, 4]), tf.TensorSpec([4, 4])]),
    (lambda x: tf.tanh(dropout(tf.exp(x[:-1]))), [SPEC]),
    (lambda x, y: dropout(tf.exp(x)[:, None] + tf.exp(y)[None]), [tf.TensorSpec([None]), tf.TensorSpec([None])])],
    ids=["dropouts", "gradients", "slice", "two arguments"])
def test_it_is_what_an_import_of_the_new_graph_finds(function: Callable[..., Any], specs: list[tf.TensorSpec]) -> None:
    resized = Resized(function, *specs)
    assert resized.changed
    types = types_of_graph(resized.concrete.graph)

    def types_of(name: str) -> list[tuple[int, tuple[int, ...] | None]]:
        if not name.startswith("tf_stitch_sizes/"):
            return types(name)
        (value,) = resized.imported.nodes[name].outputs
        assert value is not None
        return [(3, value.type.dims)]

    ours, theirs = resized.imported, import_graph(resized.after, types_of, NO_MATMULS)
    assert list(ours.nodes) == list(theirs.nodes)
    for name, node in theirs.nodes.items():
        def facts(n: ImportedNode) -> tuple[object, ...]:
            return (*astuple(replace(n, outputs=(), writes={})), [v and v.type for v in n.outputs], list(n.writes))

        assert facts(ours.nodes[name]) == facts(node)
    assert list(ours.owner.values()) == list(theirs.owner.values())
    assert all(np.array_equal(value, theirs.statics[tensor]) for tensor, value in ours.statics.items())
    assert ours.constant_handles == theirs.constant_handles


def test_no_size_is_read_from_what_only_one_branch_has() -> None:
    """A Switch stands outside of the branches, and what it gives does not: who read it there was dead in the other."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
        h = tf.reshape(tf.exp(x), [-1, 2])
        tf.compat.v1.disable_control_flow_v2()
        try:
            y = tf.compat.v1.cond(tf.reduce_sum(x) > 0, lambda: tf.roll(h, 1, 0), lambda: h, name="cond")
        finally:
            tf.compat.v1.enable_control_flow_v2()
        dropout(tf.exp(y))
    known = types_of_graph(graph)

    def types_of(name: str) -> list[tuple[int, tuple[int, ...] | None]]:
        """As TensorFlow infers them: the branches keep the size."""
        return [(enum, (-5, 2) if dims == (-1, 2) else dims) for enum, dims in known(name)]

    after = read_sizes_from_arguments(GraphState(graph.as_graph_def(), types_of, frozenset())).graph_def
    ops = {n.name: n.op for n in after.node}
    assert any(name.startswith("tf_stitch_sizes/") for name in ops)
    assert "Switch" in ops.values()
    read = {producer_of(t) for n in after.node if n.name.startswith("tf_stitch_sizes/") for t in n.input}
    assert not [name for name in read if ops[name] == "Switch"]


def test_regions_compute_with_the_sizes_that_their_nodes_read_now() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        size = tf.shape(tf.sort(tf.exp(x)))[0]
        return tf.cast(tf.round(dropout(tf.exp(x))), tf.int32) + size * 3

    resized = Resized(function, SPEC)
    assert resized.changed
    names = {n.name for n in resized.after.node}
    regions = Clustering(resized.state, ClusterOptions(1, {"CPU": CPU.profile})).find().regions
    assert any(resized.imported.nodes[m].op == "AddV2" and resized.imported.nodes[m].reason is None
               for region in regions for m in region.members)
    for region in regions:
        read = {t for m in region.members for t in resized.imported.nodes[m].inputs}
        assert {producer_of(t) for t in region.inputs} <= names
        assert set(region.inputs) <= read


def test_a_fallback_reads_sizes_where_the_program_does() -> None:
    """Of one name for two sizes: a fallback runs where the name is wrong, and does not read the other size."""
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        y = tf.exp(tf.unique(x).y)
        return [tf.broadcast_to(tf.reduce_sum(y), tf.shape(y)) + 1.0, tf.tanh(x)]

    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([None]))
    known = types_of_graph(concrete.graph)

    def types_of(name: str) -> list[tuple[int, tuple[int, ...] | None]]:
        return [(enum, (-5,) if dims == (-1,) else dims) for enum, dims in known(name)]

    state = read_sizes_from_arguments(GraphState(concrete.graph.as_graph_def(), types_of, frozenset()))
    defs = {n.name: n for n in state.graph_def.node}
    assert any(name.startswith("tf_stitch_sizes/") for name in defs)
    named = {node.op: name for name, node in state.imported.nodes.items()}
    members = [named[op] for op in ("Exp", "Sum", "BroadcastTo", "AddV2", "Tanh")]
    region = cut_region(state.imported, members, [f"{named['AddV2']}:0", f"{named['Tanh']}:0"])
    fallback = fallback_subgraph(defs, state.sure, region, given_sizes=state.given_sizes)
    assert fallback is not None
    values: dict[str, Any] = {"x": np.zeros(3, "f4"), "Unique": np.zeros(2, "f4")}
    given = [values[producer_of(t)] if producer_of(t) in values else np.zeros((), "f4") for t in region.inputs]
    [result, _], _ = fallback.run(given, [], [])
    np.testing.assert_array_equal(result, [3.0, 3.0])
