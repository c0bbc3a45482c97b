"""The pass that replaces a loop by one op: once, and only where it may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from tests.graph.loops.lowered_loops import lowered
from tf_stitch.config import StitchConfig
from tf_stitch.device.spec import CPU, H200
from tf_stitch.frontend.tensorflow.loop_shapes import STITCH_WHILE
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.passes.loops_as_ops import LoopsAsOps

X = tf.TensorSpec([3])


def until_large(x: Any) -> Any:
    return tf.while_loop(lambda a: tf.reduce_sum(a) < 9, lambda a: (tf.exp(a) + 1,), (x,))[0]


PROFILES = {"CPU": CPU.profile, "GPU": H200.profile}


def loops_as_ops(**options: Any) -> LoopsAsOps:
    return LoopsAsOps(True, Controls(StitchConfig(**options)), PROFILES)


def test_a_loop_that_data_ends_is_one_op() -> None:
    state = lowered(until_large, X).state()
    result = loops_as_ops().run(state)
    assert result.modified
    assert [n.op for n in result.graph.graph_def.node].count(STITCH_WHILE) == 1
    assert not result.graph.has_loops
    [loop] = result.graph.native
    assert set(loop.parts) == {"body", "condition"}
    assert result.graph.library_on == state.library_on, "for the rest of the graph the scope is as it was"


def test_the_report_shows_the_loops_own_nodes() -> None:
    result = loops_as_ops().run(lowered(until_large, X).state())
    assert "Exp" not in {n.op for n in result.graph.graph_def.node}
    assert "Exp" in {n.op for n in result.graph.shown().node}


def test_a_loop_with_an_op_that_no_region_holds_stays_with_the_reason() -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda a, _: tf.reduce_sum(a) < 9, lambda a, b: (a + 1, tf.math.igamma(b, b)), (x, x))

    result = loops_as_ops().run(lowered(function, X).state())
    assert not result.modified
    [loop] = result.graph.loops
    assert loop.reason is not None
    assert "Igamma" in loop.reason


def test_a_loop_of_another_process_stays() -> None:
    result = loops_as_ops().run(replace(lowered(until_large, X).state(), is_own=lambda device: False))
    assert not result.modified
    [loop] = result.graph.loops
    assert loop.reason == "its nodes are on a device of another process"


def test_what_the_user_skips_stays() -> None:
    result = loops_as_ops(skip=("*",)).run(lowered(until_large, X).state())
    assert not result.modified
    assert result.graph.has_loops


def test_a_graph_that_is_offered_again_and_switched_off() -> None:
    state = lowered(until_large, X).state()
    once = loops_as_ops().run(state).graph
    assert loops_as_ops().run(once).graph is once
    assert LoopsAsOps(False, Controls(StitchConfig()), PROFILES).run(state).graph is state
