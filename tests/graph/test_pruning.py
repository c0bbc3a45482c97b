"""What nobody needs any more goes; what never had a user, is preserved or has an effect stays."""

from __future__ import annotations

from tests.graph.graphs import graph_of, text_of
from tf_stitch.graph.pruning import prune

BEFORE = """x = Placeholder()
shape = Shape(x)
first = StridedSlice(shape)
y = Reshape(x, first)
out = Tanh(y)"""


def pruned(after: str, before: str = BEFORE, preserved: frozenset[str] = frozenset({"out"})) -> str:
    graph = graph_of(after)
    prune(graph, graph_of(before), preserved)
    return text_of(graph)


def test_a_chain_that_lost_its_user_goes() -> None:
    assert pruned("""x = Placeholder()
shape = Shape(x)
first = StridedSlice(shape)
out = Stitch(x)""") == "x = Placeholder()\nout = Stitch(x)"


def test_what_is_used_stays() -> None:
    assert pruned(BEFORE) == BEFORE


def test_a_control_edge_is_a_use() -> None:
    after = "x = Placeholder()\nshape = Shape(x)\nout = Stitch(x, ^shape)"
    assert pruned(after) == after


def test_what_is_preserved_stays() -> None:
    after = "x = Placeholder()\nshape = Shape(x)\nout = Stitch(x)"
    assert pruned(after, preserved=frozenset({"out", "shape"})) == after


def test_what_never_had_a_user_stays() -> None:
    graph = "x = Placeholder()\nloose = Shape(x)\nout = Tanh(x)"
    assert pruned(graph, graph) == graph


def test_ops_with_an_effect_stay() -> None:
    before = "h = VarHandleOp()\nset = AssignVariableOp(h)\nprint = PrintV2(h)\nuser = NoOp(^set, ^print)"
    after = "h = VarHandleOp()\nset = AssignVariableOp(h)\nprint = PrintV2(h)"
    assert pruned(after, before) == after
