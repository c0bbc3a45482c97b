"""The order of a graph's nodes where it has loops."""

from __future__ import annotations

from tests.support.loop_graph import loop
from tf_stitch.frontend.tensorflow.imported_graph import entrances, topological


def test_a_loop_is_left_after_all_of_it_was_entered() -> None:
    defs = {n.name: n for n in loop().node}
    assert entrances(defs) == {"exit": ["enter", "enter_limit"]}
    order = [n.name for n in topological(defs)]
    assert order.index("before") < order.index("exit")
