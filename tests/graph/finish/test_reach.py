"""Which nodes lead to which, and which run again."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.finish.reach import Reach

EDGES = {"x": [], "ahead": ["x"], "enter": ["ahead"], "merge": ["enter", "next"], "in_loop": ["merge"],
         "next": ["in_loop"], "exit": ["merge"], "behind": ["exit"]}  # fmt: skip
OPS = {"enter": "Enter", "merge": "Merge", "next": "NextIteration", "exit": "Exit"}


def loop() -> GraphDef:
    graph = GraphDef()
    for name, inputs in EDGES.items():
        graph.node.add(name=name, op=OPS.get(name, "Identity"), input=inputs)
    return graph


def test_what_is_in_a_loop_runs_again_and_leads_out_of_it_over_its_back_edge() -> None:
    reach = Reach.of(loop(), {"ahead": 1, "in_loop": 2, "behind": 4})
    assert [name for name in reach.own if reach.runs_again(name)] == ["in_loop"]
    assert dict(reach.once) == {"ahead": 0, "in_loop": 1, "behind": 1}
    assert dict(reach.ever) == {"ahead": 0, "in_loop": 3, "behind": 3}
