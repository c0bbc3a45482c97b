"""A folded loop that no region took is a loop again; the graph before is left as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tensorflow as tf

from tests.graph.loops.lowered_loops import lowered
from tests.graph.loops.test_sized_loops import ROWS, running_sum
from tf_stitch.graph.finish.put_back_loops import PutBackLoops
from tf_stitch.graph.loops.folded_loop import STITCH_LOOP
from tf_stitch.graph.loops.loop_folding import fold_sized_loops


def test_a_loop_is_there_again() -> None:
    case = lowered(running_sum, ROWS)
    folded = fold_sized_loops(case.state()).state
    done = PutBackLoops().run(folded)
    assert done.modified
    assert [n.op for n in folded.graph_def.node].count(STITCH_LOOP) == 1
    rows = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(case.run(rows, graph_def=done.graph.graph_def), case.run(rows))


def test_a_graph_without_one_is_kept() -> None:
    state = lowered(lambda x: tf.exp(x), ROWS).state()
    assert not PutBackLoops().run(replace(state)).modified
