"""Loops whose length is a size: one node each, the same loop when it is put back, the same values when it is written
out."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import TypesOfNodes, types_of_graph
from tests.graph.loops.lowered_loops import Lowered, lowered
from tf_stitch.config import StitchConfig
from tf_stitch.errors import BindError
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.fallback.fallback_subgraph import FallbackSubgraph, fallback_subgraph
from tf_stitch.graph.finish.validation import validate_graph
from tf_stitch.graph.graph_item import GraphItem
from tf_stitch.graph.loops import sized_loops, unrolled_nodes
from tf_stitch.graph.loops.folded_loop import STITCH_LOOP, put_back_loops
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.loop_folding import fold_sized_loops
from tf_stitch.graph.loops.sized_loops import SizedLoop
from tf_stitch.graph.passes.fold_loops import NOT_FOLDED, FoldLoops
from tf_stitch.graph.passes.unroll_loops import UnrollLoops
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.bind import bind
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import TensorType
from tf_stitch.pass_manager import PassResult
from tf_stitch.plugin.session import Session

ROWS = tf.TensorSpec([None, 3], tf.float32)
ALL = {"CPU": Matmuls.ALL}


def fold(case: Lowered) -> LoopChange:
    return fold_sized_loops(case.state())


def running_sum(x: Any) -> Any:
    return tf.scan(lambda a, row: tf.tanh(a) + row, x, initializer=tf.zeros([3])) * 2.0


def rows(count: int) -> Any:
    return np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)


def test_one_node_stands_for_the_loop_and_can_be_put_back() -> None:
    case = lowered(running_sum, ROWS)
    folded = fold(case)
    assert len(folded.changed) == 1
    assert [n.op for n in folded.state.graph_def.node].count(STITCH_LOOP) == 1
    assert not [n.op for n in folded.state.graph_def.node if n.op in ("Enter", "Merge", "TensorListReserve")]
    put_back_loops(folded.state.graph_def, folded.state.sized)
    validate_graph(case.graph_def, folded.state.graph_def, frozenset())
    for count in (1, 4):
        np.testing.assert_array_equal(case.run(rows(count), graph_def=folded.state.graph_def), case.run(rows(count)))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_it_is_unrolled_for_its_length(count: int) -> None:
    case = lowered(running_sum, ROWS)
    folded = fold(case)
    imported = folded.state.imported
    result = imported.value(case.fetches[0])
    assert result is not None
    graph = TensorGraph("loop", [("result", result)])
    assert [n.kind for n in graph.nodes()].count(OpKind.LOOP) == 1
    bound = bind(graph, {case.feeds[0]: (count, 3)})
    assert OpKind.LOOP not in [n.kind for n in bound.nodes()]
    assert [n.kind for n in bound.nodes()].count(OpKind.TANH) == count
    found = interpret(bound, {case.feeds[0]: rows(count)})["result"]
    np.testing.assert_allclose(found, case.run(rows(count))[0], rtol=1e-6)


def test_not_for_ever_more_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_loops, "MAX_LENGTHS", 2)
    case = lowered(running_sum, ROWS)
    folded = fold(case)
    result = folded.state.imported.value(case.fetches[0])
    assert result is not None
    graph = TensorGraph("loop", [("result", result)])
    for count in (1, 2, 2):
        bind(graph, {case.feeds[0]: (count, 3)})
    with pytest.raises(BindError, match="for 2 lengths already"):
        bind(graph, {case.feeds[0]: (3, 3)})


def test_lengths_that_are_too_long_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_loops, "MAX_LENGTHS", 2)
    [folded] = fold(lowered(running_sum, ROWS)).state.sized.values()
    loop = SizedLoop(folded)
    monkeypatch.setattr(unrolled_nodes, "MAX_NODES", 60)
    types = {count: [TensorType(DType.F32, (count, 3)) for _ in folded.inputs] for count in (2, 50, 60)}
    assert loop.unrolled(types[2])
    for count, reason in ((50, "more than 60 nodes"), (50, "more than 60 nodes"), (60, "for 2 lengths already")):
        with pytest.raises(BindError, match=reason):
            loop.unrolled(types[count])


def test_a_loop_lives_as_long_as_what_was_made_of_its_graph() -> None:
    case = lowered(running_sum, ROWS)
    folded = fold(case)
    [loop] = map(weakref.ref, folded.state.sized.values())
    imported = folded.state.imported
    del folded
    gc.collect()
    assert loop() is not None
    del imported
    gc.collect()
    assert loop() is None


def test_a_graph_that_is_rewritten_anew_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its loop in a region, which could not have gone back to the nodes that it replaced. Only what depends on
    that runs again."""
    runs: Counter[str] = Counter()
    for kind in (UnrollLoops, FoldLoops):
        def counted(self: Any, state: GraphState, run: Any = kind.run) -> PassResult[GraphState]:
            runs[self.name] += 1
            return run(self, state)

        monkeypatch.setattr(kind, "run", counted)

    def cannot_go_back(defs: Any, imported: Any, region: RegionGraph, *rest: Any) -> FallbackSubgraph | None:
        has_loop = any(node.kind is OpKind.LOOP for node in region.graph.nodes())
        return None if has_loop else fallback_subgraph(defs, imported, region, *rest)

    monkeypatch.setattr("tf_stitch.graph.pipeline.fallback_subgraph", cannot_go_back)

    def function(x: Any) -> Any:
        sums = tf.reduce_sum(tf.exp(tf.nn.softmax(tf.sort(x))), 1)
        rows = tf.transpose(x, [1, 0, 2])
        return tf.scan(lambda a, row: tf.tanh(a + row), rows, initializer=tf.zeros_like(x[:, 0])), sums

    case = lowered(function, tf.TensorSpec([None, None, 8], tf.float32))
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(case.graph_def, name="")
        item = GraphItem(case.graph_def, case.preserved, "g", "CPU", False, TypesOfNodes(types_of_graph(graph)))
        session = Session(StitchConfig(unroll="1", cache_dir=tmp_path), None)
        rewritten = session.rewrite(item)
    assert rewritten is not None
    [loop] = session.report.graphs[0].loops
    assert loop.reason is not None
    assert NOT_FOLDED in loop.reason
    assert runs == {"unroll_loops": 1, "fold_loops": 2}
    assert len(session.report.regions) == [n.op for n in rewritten.node].count("PyFunc")
