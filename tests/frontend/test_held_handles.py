"""Functions with nodes in place of arguments."""

from __future__ import annotations

import pytest
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.framework.types_pb2 import DT_FLOAT, DT_RESOURCE

from tf_stitch.frontend.tensorflow.held_handles import handle_node, held_name, original_name, without_arguments

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


def test_names() -> None:
    """A name that the program gave is none of ours."""
    assert original_name(f"in {held_name('__inference_f_12', 3)}: bad") == "in __inference_f_12: bad"
    assert original_name("__inference_f_held_12") == "__inference_f_held_12"
