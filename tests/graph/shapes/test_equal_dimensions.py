"""Sizes of feeds that are broadcast to each other are assumed equal, where regions can see whether they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tests.graph.loops.lowered_loops import lowered
from tf_stitch.config import StitchConfig
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import BindError
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.fallback.fallback_subgraph import FallbackSubgraph, fallback_subgraph
from tf_stitch.graph.pipeline import GraphOptions, find_regions
from tf_stitch.graph.shapes.argument_sizes import read_sizes_from_arguments
from tf_stitch.graph.shapes.equal_dimensions import assume_equal_dimensions
from tf_stitch.graph.state import GraphState
from tf_stitch.jit.placed_region import PlacedRegion

ALL = {"CPU": Matmuls.ALL}
SPEC = tf.TensorSpec([None, 3])


def types_of(graph: Any) -> TypesOf:
    """The graph's own shape inference, with names for the sizes of feeds as Grappler has them."""
    types, numbers = types_of_graph(graph), itertools.count(2)
    feeds = [op.name for op in graph.get_operations() if op.type == "Placeholder"]
    named = {name: [(enum, tuple(-next(numbers) if d == -1 else d for d in dims or ())) for enum, dims in types(name)]
             for name in feeds}
    return lambda name: named.get(name) or types(name)


class Case:
    """A function's graph with its regions."""

    def __init__(self, function: Callable[..., Any], *specs: tf.TensorSpec) -> None:
        self.graph_def = lowered(function, *specs)
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(self.graph_def.graph_def, name="")
        preserved = self.graph_def.preserved
        state = GraphState(self.graph_def.graph_def, types_of(graph), preserved, ALL)
        self.state = assume_equal_dimensions(read_sizes_from_arguments(state))
        clustering = Clustering(self.state, ClusterOptions(2, {"CPU": CPU.profile}))
        self.regions: list[RegionGraph] = clustering.find().regions
        self.defs = {node.name: node for node in self.state.graph_def.node}

    @property
    def witnesses(self) -> tuple[str, ...]:
        return () if self.state.assumption is None else self.state.assumption.witnesses


def bound(region: RegionGraph, *shapes: tuple[int, ...]) -> None:
    PlacedRegion(0, region, -1, True).bound(shapes)


def unbroadcast(gradient: Any, x: Any, y: Any) -> Any:
    """The gradient of x, given that of what x and y are broadcast to."""
    axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(y))[0]
    return tf.reshape(tf.reduce_sum(gradient, axes), tf.shape(x))


def test_two_feeds_are_one_region() -> None:
    case = Case(lambda x, y: tf.tanh(tf.exp(x) * tf.sin(y)), SPEC, SPEC)
    [region] = case.regions
    assert region.assumes
    assert sorted(region.inputs) == ["x:0", "y:0"]
    bound(region, (4, 3), (4, 3))
    with pytest.raises(BindError, match="assumed equal"):
        bound(region, (4, 3), (1, 3))


def test_a_witness_that_is_not_read() -> None:
    """Over which axes there is nothing to add depends on a tensor that the region does not read."""
    def function(x: Any, y: Any) -> Any:
        elsewhere = tf.math.igamma(1.0, tf.reduce_sum(tf.exp(x) * tf.sin(y)))
        return tf.tanh(unbroadcast(tf.exp(x) * elsewhere, x, y))

    case = Case(function, SPEC, SPEC)
    [last] = [region for region in case.regions if "Tanh" in region.members]
    assert last.assumes
    assert [t for t in last.inputs if t in ("x:0", "y:0")] == ["x:0", "y:0"]
    assert len(last.graph.unread) == 1
    shapes = {"x:0": (4, 3), "y:0": (4, 3)}
    bound(last, *(shapes.get(t, ()) for t in last.inputs))
    with pytest.raises(BindError, match="assumed equal"):
        bound(last, *((shapes | {"y:0": (1, 3)}).get(t, ()) for t in last.inputs))


def test_what_does_not_depend_on_it_runs_on() -> None:
    def function(x: Any, y: Any) -> Any:
        met = tf.math.igamma(1.0, tf.reduce_sum(tf.exp(x) * tf.sin(y)))
        return tf.tanh(tf.exp(x) * met)

    first, last = Case(function, SPEC, SPEC).regions
    assert first.assumes
    assert not last.assumes
    assert "y:0" not in last.inputs


def test_broadcasting_that_is_known() -> None:
    assert not Case(lambda x, y: tf.tanh(tf.exp(x)[:, None] * tf.exp(y)[None]), SPEC, SPEC).witnesses
    assert not Case(lambda x, y: tf.tanh(tf.exp(x) * tf.exp(y)), SPEC, tf.TensorSpec([1, 3])).witnesses


def test_only_feeds() -> None:
    """A slice that takes the first row, if there is one, is of another size than the others nearly always."""
    assert not Case(lambda x: tf.tanh(tf.exp(x) * tf.exp(x[:1])), SPEC).witnesses


def test_shifted_text_is_as_long() -> None:
    case = Case(lambda x: tf.tanh(tf.exp(x) * tf.exp(tf.pad(x[:-1], [[1, 0], [0, 0]]))), SPEC)
    assert len(case.witnesses) == 2
    assert any(region.assumes for region in case.regions)


def test_tensors_of_one_value_if_sizes_are_equal() -> None:
    """A gradient, and what is left of it where its operand was broadcast."""
    def function(x: Any, y: Any) -> Any:
        matmul = tf.exp(x) * tf.sin(y)
        gradient = tf.tanh(matmul)
        return gradient, unbroadcast(gradient, x, y)

    case = Case(function, SPEC, SPEC)
    [region] = case.regions
    numbers = [region.outputs[t] for t in region.outputs]
    assert len(numbers) == 2
    assert len(set(numbers)) == 2
    assert len({id(node) for _, node in region.graph.outputs}) == 1


def test_every_such_region_has_its_own_nodes() -> None:
    def function(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf.reduce_sum(tf.tanh(tf.exp(x) * tf.sin(y)) + y)
        return tape.gradient(loss, [x, y])

    case = Case(function, SPEC, SPEC)
    assert any(region.assumes for region in case.regions)
    for region in case.regions:
        assert fallback_subgraph(case.defs, case.state.sure, region) is not None


def test_loops_do_not_depend_on_it() -> None:
    """There is nothing to see there of feeds that do not go in."""
    def function(x: Any, y: Any) -> Any:
        z = tf.exp(x) * tf.sin(y)
        body = lambda i, a: (i + 1, tf.tanh(a * 2.0) + tf.sort(a * z, axis=0))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 3, body, (0, z), shape_invariants=(None, tf.TensorShape([None, 3])))[1]

    case = Case(function, SPEC, SPEC)
    assert case.witnesses
    for region in case.regions:
        inside = any(name.startswith("while") for name in region.members)
        assert region.assumes != inside


def test_regions_are_formed_without_it_where_one_has_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_fallback(defs: Any, imported: Any, region: RegionGraph, *rest: Any) -> FallbackSubgraph | None:
        return None if region.assumes else fallback_subgraph(defs, imported, region, *rest)

    def function(x: Any, y: Any) -> Any:
        drawn = tf.random.stateless_uniform(tf.shape(tf.exp(x) + y), [1, 2])
        return tf.tanh(tf.exp(x) * tf.sin(y)), tf.exp(tf.tanh(drawn))

    monkeypatch.setattr("tf_stitch.graph.pipeline.fallback_subgraph", no_fallback)
    case = lowered(function, SPEC, SPEC)
    before = case.graph_def.SerializeToString(deterministic=True)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(case.graph_def, name="")
        options = GraphOptions.by(StitchConfig(), "CPU", True, {"CPU": CPU.profile, "GPU": H200.profile},
                                  Controls(StitchConfig()))
        state = GraphState(case.graph_def, types_of(graph), case.preserved, ALL)
        found = find_regions(state, options)
    assert found.regions.regions
    assert not any(region.assumes for region in found.regions.regions)
    assert found.without_fallback == []
    assert len(found.state.graph_def.node) != len(state.graph_def.node), "sizes are read from arguments"
    assert case.graph_def.SerializeToString(deterministic=True) == before
    assert found.state.count.imports == 2


def test_an_element_of_a_list_has_the_sizes_of_what_it_meets() -> None:
    """The body of a GRU's loop, by itself: its state is an argument, the step's rows come out of a list."""
    def body(handle: Any, index: Any, state: Any) -> Any:
        row = tf.raw_ops.TensorListGetItem(input_handle=handle, index=index, element_shape=[-1, 3],
                                           element_dtype=tf.float32)
        return tf.tanh(tf.exp(row) * tf.sin(state)) + state

    case = Case(body, tf.TensorSpec([], tf.variant), tf.TensorSpec([], tf.int32), SPEC)
    [region] = case.regions
    assert region.assumes
    assert fallback_subgraph(case.defs, case.state.sure, region) is not None
    with pytest.raises(BindError):
        bound(region, *((4 + i, 3) for i in range(len(region.inputs))))
