"""A graph that is offered for rewriting is never edited, wherever the rewriting stops."""

from __future__ import annotations

import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import TypesOfNodes, types_of_graph
from tests.graph.loops.lowered_loops import Lowered, lowered
from tf_stitch.config import StitchConfig
from tf_stitch.device.spec import CPU, H200
from tf_stitch.graph import pipeline
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.graph_item import GraphItem
from tf_stitch.plugin import session
from tf_stitch.plugin.session import Session

CONFIG = StitchConfig(unroll="1")
OPTIONS = pipeline.GraphOptions.by(CONFIG, "CPU", True, {"CPU": CPU.profile, "GPU": H200.profile},
                                   Controls(CONFIG))
STAGES: dict[str, tuple[Any, str]] = {
    **{p.name: (type(p), "run")
       for p in (*pipeline.graph_passes(OPTIONS), *pipeline.finishing_passes(GraphDef(), {}))},
    "find": (pipeline.Clustering, "find"), "fallback_subgraph": (pipeline, "fallback_subgraph"),
    "apply": (pipeline.Clustering, "apply"),
    "number_regions": (session, "number_regions"), "seen": (Session, "_seen"), "nowhere": (object, "")}


def step(x: Any, y: Any) -> Any:
    """With a loop whose length is known, one whose length is a size, constants that wait, and sizes that are late."""
    y = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.tanh(a) + y), (0, tf.exp(x)))[1]
    rows = tf.scan(lambda a, row: tf.tanh(a) + row, y, initializer=tf.zeros([6]))
    with tf.control_dependencies([rows]):
        scale = tf.constant(2.0)
    drawn = tf.random.stateless_uniform(tf.shape(tf.exp(rows)), [1, 2])
    return tf.nn.softmax(rows * drawn) * scale


@pytest.fixture(scope="module")
def case() -> Lowered:
    return lowered(step, tf.TensorSpec([None, 6], tf.float32), tf.TensorSpec([None, 6], tf.float32))


@pytest.mark.parametrize("stage", STAGES)
def test_the_graph_is_not_edited(case: Lowered, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = STAGES[stage]
    if name:
        real = getattr(owner, name)

        def fail(*args: Any, **kwargs: Any) -> Any:
            real(*args, **kwargs)
            raise RuntimeError(f"planted behind {stage}")

        monkeypatch.setattr(owner, name, fail)
    before = case.graph_def.SerializeToString(deterministic=True)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(case.graph_def, name="")
        item = GraphItem(case.graph_def, case.preserved, "g", "CPU", False, TypesOfNodes(types_of_graph(graph)))
        rewriting = Session(StitchConfig(unroll="1", cache_dir=tmp_path), None)
        if name:
            with pytest.raises(RuntimeError, match="planted"):
                rewriting.rewrite(item)
        else:
            assert rewriting.rewrite(item) is not None
    assert case.graph_def.SerializeToString(deterministic=True) == before


def test_names_for_profilers_that_cannot_be_had_are_said(tmp_path: Path) -> None:
    """As of a region that was dropped while a profiler asked: its kernels run without names."""
    asked = Session(StitchConfig(cache_dir=tmp_path), None)
    assert asked.labels(77, -1, (0,)) == {}
    remarks = asked.report.document()["remarks"]
    assert [(remark["stage"], remark["count"]) for remark in remarks] == [("profiler", 1)]


def test_no_call_waits_for_kernels_after_tensorflows_graph(tmp_path: Path) -> None:
    """What its first calls ran goes on until the background has built the rest."""
    rewriting = Session(StitchConfig(cache_dir=tmp_path), None)
    rewriting.first_calls = SimpleNamespace(changes_any_time=lambda _: True)  # type: ignore[assignment]
    budget, build = rewriting._new_budget("g"), Future[None]()
    assert budget is not None
    start = time.monotonic()
    budget.wait(build)
    assert time.monotonic() - start < 0.1
