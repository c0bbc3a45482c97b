"""Regions hold the variables that nodes of their function stand for."""

from __future__ import annotations

import pytest
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.types_pb2 import DT_FLOAT

from tests.graph.graphs import graph_of, text_of
from tf_stitch.graph.finish.hold_variables import hold_variables


def regions(text: str, inputs: dict[str, int]) -> GraphDef:
    """
    Args:
        inputs: of regions, how many are no variables. Handles have their places for numbers.
    """
    graph = graph_of(text)
    for place, node in enumerate(graph.node):
        if node.op == "StitchHandle":
            node.attr["_number"].i = place
        if node.name in inputs:
            node.attr["Tin"].list.type.extend([DT_FLOAT] * inputs[node.name])
            node.attr["N"].i = sum(not t.startswith("^") for t in node.input) - inputs[node.name]
    return graph


def test_a_region_holds_what_its_function_holds() -> None:
    graph = regions("""
        x = _Arg()
        a = StitchHandle()
        b = StitchHandle()
        r = StitchStateOp(x, b, a:0, ^x)
        read = ReadVariableOp(b)
    """, {"r": 1})
    hold_variables(graph, frozenset())
    assert text_of(graph).splitlines() == ["x = _Arg()", "b = StitchHandle()", "r = StitchStateOp(x, ^x)",
                                           "read = ReadVariableOp(b)"]
    region = graph.node[2]
    assert (list(region.attr["held"].list.i), region.attr["N"].i) == ([2, 1], 0)


@pytest.mark.parametrize("other", ["v = _Arg()", "v = Switch(a, x)"])
def test_one_that_also_takes_others_takes_all(other: str) -> None:
    graph = regions(f"""
        x = _Arg()
        a = StitchHandle()
        {other}
        r = StitchStateOp(x, a, v)
    """, {"r": 1})
    before = text_of(graph)
    hold_variables(graph, frozenset())
    assert text_of(graph) == before
    assert not graph.node[-1].attr["held"].list.i


def test_what_must_stay_stays() -> None:
    graph = regions("""
        a = StitchHandle()
        b = StitchHandle()
    """, {})
    hold_variables(graph, frozenset({"b"}))
    assert [node.name for node in graph.node] == ["b"]
