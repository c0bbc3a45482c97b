"""Functions with nodes in place of arguments, and regions that hold what these stand for."""

from __future__ import annotations

import pytest
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.framework.types_pb2 import DT_FLOAT, DT_RESOURCE

from tests.graph.graphs import graph_of, text_of
from tf_stitch.graph.held_variables import handle_node, held_name, hold, original_name, without_arguments

NODE = handle_node(7, DT_FLOAT, TensorShapeProto(), "/device:CPU:0")


def function() -> FunctionDef:
    """(x, v0, v1) -> a read of v0, v0, x behind an update of v1."""
    made = FunctionDef()
    made.signature.name = "f"
    made.signature.input_arg.add(name="x", type=DT_FLOAT)
    for name in ("v0", "v1"):
        made.signature.input_arg.add(name=name, type=DT_RESOURCE)
    made.node_def.add(name="read", op="ReadVariableOp", input=["v0"])
    made.node_def.add(name="write", op="AssignVariableOp", input=["v1", "x", "^read"])
    made.ret.update({"y": "read:value:0", "v": "v0", "z": "x"})
    made.control_ret["write"] = "write"
    return made


def test_nodes_stand_in_place_of_arguments() -> None:
    new = without_arguments(function(), {"v0": NODE})
    assert [arg.name for arg in new.signature.input_arg] == ["x", "v1"]
    assert {node.name: list(node.input) for node in new.node_def} == {
        "read": ["v0:resource:0"], "write": ["v1", "x", "^read"], "v0": []}
    assert dict(new.ret) == {"y": "read:value:0", "v": "v0:resource:0", "z": "x"}
    assert dict(new.control_ret) == {"write": "write"}
    assert new.node_def[-1].op == "StitchHandle"
    assert new.signature.is_stateful


@pytest.mark.parametrize("kept", ["x", "v1"])
def test_attributes_of_the_arguments_that_stay_move_with_them(kept: str) -> None:
    before = function()
    place = [arg.name for arg in before.signature.input_arg].index(kept)
    before.arg_attr[place].attr["_mark"].b = True
    new = without_arguments(before, {"v0": NODE})
    names = [arg.name for arg in new.signature.input_arg]
    assert {names[i]: one.attr["_mark"].b for i, one in new.arg_attr.items()} == {kept: True}


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
    hold(graph, frozenset())
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
    hold(graph, frozenset())
    assert text_of(graph) == before
    assert not graph.node[-1].attr["held"].list.i


def test_what_must_stay_stays() -> None:
    graph = regions("""
        a = StitchHandle()
        b = StitchHandle()
    """, {})
    hold(graph, frozenset({"b"}))
    assert [node.name for node in graph.node] == ["b"]


def test_names() -> None:
    """A name that the program gave is none of ours."""
    assert original_name(f"in {held_name('__inference_f_12', 3)}: bad") == "in __inference_f_12: bad"
    assert original_name("__inference_f_held_12") == "__inference_f_held_12"
