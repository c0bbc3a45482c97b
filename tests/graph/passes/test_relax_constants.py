"""Constants lose their control inputs, and nobody loses its place in the order."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.passes.relax_constants import RelaxConstants
from tf_stitch.graph.state import GraphState
from tf_stitch.report.entries import BranchEntry, LoopEntry


def inputs_after(*nodes: tuple[str, str, list[str]], preserved: str = "", unrolled: bool = False,
                 selects: bool = False) -> dict[str, list[str]]:
    before = GraphDef()
    for name, op, inputs in nodes:
        before.node.add(name=name, op=op, input=inputs)
    loops = (LoopEntry("while", 3, None),) if unrolled else ()
    result = RelaxConstants().run(GraphState(before, lambda name: [], frozenset(preserved.split()), loops=loops,
                                            branches=(BranchEntry("cond", "s", "p:0", None),) if selects else ()))
    assert result.modified is (result.graph.graph_def != before)
    return {n.name: list(n.input) for n in result.graph.graph_def.node}


def test_users_wait_in_the_place_of_the_constant() -> None:
    after = inputs_after(("read", "ReadVariableOp", ["h"]), ("d", "Const", ["^read"]), ("c", "Const", ["^d"]),
                         ("a", "AssignVariableOp", ["h", "c"]), ("b", "NoOp", ["^c", "^read"]))
    assert after == {
        "read": ["h"], "d": [], "c": [], "a": ["h", "c", "^read"], "b": ["^c", "^read"]}


def test_what_is_behind_a_branch_is_left_alone() -> None:
    branch = (("s", "Switch", ["x", "p"]), ("c", "Const", ["^s"]), ("m", "Merge", ["s", "c"]), ("n", "Shape", ["m"]),
              ("d", "Const", ["^n"]), ("e", "AddV2", ["m", "d", "^n"]))
    assert inputs_after(*branch) == {name: inputs for name, _, inputs in branch}


def test_a_branch_elsewhere_keeps_nothing_apart() -> None:
    """Replicas that gather gradients of embeddings ask whether all have equally many rows: a branch in each step."""
    after = inputs_after(("g", "Mul", ["x", "y"]), ("two", "Const", ["^g"]), ("h", "Mul", ["g", "two"]),
                         ("n", "Shape", ["h"]), ("s", "Switch", ["h", "p", "two", "^n"]), ("c", "Const", ["^s"]))
    assert after == {"g": ["x", "y"], "two": [], "h": ["g", "two", "^g"], "n": ["h"],
                     "s": ["h", "p", "two", "^g", "^h"], "c": ["^s"]}


def test_so_do_users_of_axes_in_another_layout() -> None:
    after = inputs_after(("x", "Relu", ["y"]), ("c", "Const", ["^x"]), ("d", "Const", []),
                         ("m", "DataFormatVecPermute", ["c", "^z"]), ("n", "DataFormatDimMap", ["d"]),
                         ("o", "DataFormatDimMap", ["s"]), ("g", "Conv2DBackpropInput", ["m", "n", "o:0"]))
    assert after == {"x": ["y"], "c": [], "d": [], "m": ["c"], "n": ["d"], "o": ["s"],
                     "g": ["m", "n", "o:0", "^x", "^z"]}


def test_so_do_users_of_what_is_computed_of_constants_alone() -> None:
    """Of a shape that a branch was given, once it is a constant: how many rows a gradient has."""
    after = inputs_after(("rows", "StridedSlice", ["shape", "zero", "one", "one", "^pred"]), ("zero", "Const", []),
                         ("shape", "Identity", ["c"]), ("c", "Const", ["^x"]), ("one", "Const", []),
                         ("x", "Relu", ["y"]), ("sum", "UnsortedSegmentSum", ["x", "i", "rows"]))
    assert after == {"rows": ["shape", "zero", "one", "one"], "zero": [], "shape": ["c"], "c": [], "one": [],
                     "x": ["y"], "sum": ["x", "i", "rows", "^x", "^pred"]}


def test_what_is_fetched_waits_itself() -> None:
    """A session runs an update by fetching a constant behind it."""
    graph = (("a", "AssignVariableOp", ["h", "v"]), ("c", "Const", ["^a"]), ("d", "Const", []),
             ("i", "Identity", ["d", "^a"]))
    assert inputs_after(*graph, preserved="c i") == {name: inputs for name, _, inputs in graph}


def test_who_waits_for_a_shape_waits_for_the_tensor() -> None:
    after = inputs_after(("x", "Relu", ["y"]), ("s", "ShapeN", ["x", "w:0", "^v"]), ("c", "Const", ["^s"]),
                         ("g", "Conv2DBackpropInput", ["c", "x", "x"]), ("h", "Reshape", ["x", "s:1", "^s"]),
                         ("n", "NoOp", ["^g", "^s"]))
    assert after == {"x": ["y"], "s": ["x", "w:0", "^v"], "c": [], "g": ["c", "x", "x", "^x", "^w", "^v"],
                     "h": ["x", "s:1"], "n": ["^g", "^x", "^w", "^v"]}
    alone = inputs_after(("s", "Shape", ["x"]), ("h", "Reshape", ["x", "s"]))
    assert alone == {"s": ["x"], "h": ["x", "s"]}


def test_so_does_who_waits_for_what_is_computed_of_shapes() -> None:
    """A recurrent layer's weights are read when the size of its batch is known, which the layer below gives."""
    batch = (("h", "Pack", ["a", "b"]), ("s", "Shape", ["h", "^u"]), ("zero", "Const", []), ("late", "Const", ["^z"]),
             ("n", "StridedSlice", ["s", "zero", "zero", "late"]), ("rows", "ExpandDims", ["n", "zero", "^n"]),
             ("state", "Fill", ["rows", "zero"]))
    after = inputs_after(*batch, ("w", "ReadVariableOp", ["r", "^n", "^state"]))
    assert after["w"] == ["r", "^h", "^u", "^zero", "^z"]
    assert after["rows"] == ["n", "zero"], "it waits for that anyway"
    assert after["n"] == ["s", "zero", "zero", "late", "^z"]


def test_what_is_computed_of_other_numbers_is_waited_for() -> None:
    """A region may hold it, and wait for it itself; and a draw of random numbers is one of a sequence."""
    numbers = (("s", "Shape", ["h"]), ("m", "Mul", ["s", "x"]), ("d", "RandomUniform", ["s"]),
               ("w", "ReadVariableOp", ["r", "^m", "^d"]))
    assert inputs_after(*numbers)["w"] == ["r", "^m", "^d"]


LOOP = (("x", "Pack", ["y"]), ("l", "TensorListFromTensor", ["x", "shape", "^z"]),
        ("r", "TensorListReserve", ["shape", "n"]), ("enter", "NoOp", ["^l", "^r", "^h"]),
        ("w", "ReadVariableOp", ["h", "^enter"]), ("last", "Add", ["w", "x"]),
        ("exit", "Identity", ["last", "^enter", "^w"]), ("done", "NoOp", ["^exit"]),
        ("update", "AssignVariableOp", ["h", "g", "^done"]))
"""What is left of one: reads of weights waited for its lists, updates wait for its end."""


def test_what_an_unrolled_loop_leaves_is_not_waited_for() -> None:
    before_it = ["^x", "^shape", "^z", "^n", "^h"]
    assert inputs_after(*LOOP, unrolled=True) == {
        "x": ["y"], "w": ["h", *before_it], "last": ["w", "x"], "update": ["h", "g", "^last", *before_it, "^w"]}
    assert inputs_after(*LOOP) == {name: inputs for name, _, inputs in LOOP}, "there was no loop"


def test_so_is_what_a_branch_leaves_that_became_selects() -> None:
    step = (("a", "AssignVariableOp", ["h", "x"]), ("b", "AssignVariableOp", ["g", "x"]),
            ("merge", "NoOp", ["^a", "^b"]), ("later", "AssignAddVariableOp", ["i", "one", "^merge"]))
    assert inputs_after(*step, selects=True)["later"] == ["i", "one", "^a", "^b"]
    assert inputs_after(*step)["later"] == ["i", "one", "^merge"], "there was no branch"


def test_what_is_read_or_has_to_stay_is_waited_for() -> None:
    stack = ("s", "TensorListStack", ["l"])
    after = inputs_after(*LOOP, stack, unrolled=True)
    assert after["w"] == ["h", "^l", "^shape", "^n", "^h"]
    after = inputs_after(*LOOP, unrolled=True, preserved="done")
    assert after["done"] == ["^last", "^x", "^shape", "^z", "^n", "^h", "^w"]
    assert after["update"] == ["h", "g", "^done"]


def test_where_that_makes_many_edges_nodes_between_stay() -> None:
    many = [(f"i{i}", "Relu", ["x"]) for i in range(300)]
    wait = ("all", "NoOp", [f"^i{i}" for i in range(300)])
    followers = [(f"o{i}", "Relu", ["x", "^all"]) for i in range(300)]
    nodes = (*many, wait, *followers)
    assert inputs_after(*nodes, unrolled=True) == {name: inputs for name, _, inputs in nodes}
    few = inputs_after(*many, wait, *followers[:5], unrolled=True)
    assert "all" not in few
    assert len(few["o4"]) == 301
