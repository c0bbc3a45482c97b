"""Graphs of sizes for other numbers."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tf_stitch.errors import StitchError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.dynamic_dims import atom_values, bind_changing
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.renumbering import Renumbering
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.ir.types import Symbol


def graph() -> TensorGraph:
    x = p.B.input("x", DType.F32, (Symbol("b"), Symbol("n"), 4))
    y = p.B.slice(p.B.broadcast(x, x.type.shape), (0, 0, 1), (1, 1, 2), (Symbol("b"), Symbol("n"), 2))
    w = p.B.exp(p.B.input("w", DType.F32, (2,)))
    return TensorGraph("g", [("o", p.B.sum(p.B.mul(y, w), [1])), ("w", w)])


def bound(b: int, n: int) -> TensorGraph:
    return bind_changing(graph(), {"x": (b, n, 4), "w": (2,)}, ["b", "n"], 4)


def numbers(graph: TensorGraph) -> list[tuple[int, ...]]:
    return [tuple(map(int, node.type.dims)) for node in graph.nodes()]


@pytest.mark.parametrize(("b", "n"), [(3, 12), (7, 4), (1, 400)])
def test_it_is_the_graph_bound_to_them(b: int, n: int) -> None:
    before, wanted = bound(5, 8), bound(b, n)
    found = Renumbering(atom_values({"b": b, "n": n}, 4)).graph(before)
    assert anonymous_text(found) == anonymous_text(wanted)
    assert numbers(found) == numbers(wanted)
    assert dict(found.outputs)["w"] is dict(before.outputs)["w"], "no size occurs in it"


def test_a_graph_that_is_none_for_these_numbers() -> None:
    x = p.B.input("x", DType.F32, (Symbol("n"), 4))
    part = p.B.slice(x, (5, 0), (1, 1), (3, 4))
    before = bind_changing(TensorGraph("g", [("o", part)]), {"x": (8, 4)}, ["n"])
    with pytest.raises(StitchError, match="leaves an axis"):
        Renumbering({"n": 7}).graph(before)
