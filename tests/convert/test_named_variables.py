from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_FLOAT, DT_RESOURCE
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from tf_stitch.convert.named_variables import SUFFIX, name_variables
from tf_stitch.convert.saved_model import Signature, Value

SIGNATURE = Signature("serve", (Value("x", "x:0", tf.float32, (4,)),), (Value("y", "call:0", tf.float32, (4,)),))


def handle(name: str, shared: str = "", container: str = "") -> NodeDef:
    node = NodeDef(name=name, op="VarHandleOp")
    node.attr["dtype"].type = DT_FLOAT
    if shared:
        node.attr["shared_name"].s = shared.encode()
    if container:
        node.attr["container"].s = container.encode()
    return node


def region_function(variables: int) -> FunctionDef:
    """(x, v0, ...) -> a region that reads all of them."""
    function = FunctionDef()
    function.signature.name = "inner"
    function.signature.input_arg.add(name="x", type=DT_FLOAT)
    own = FunctionDef()
    own.signature.input_arg.add(name="tfs_i0", type=DT_FLOAT)
    names = ["x"]
    for i in range(variables):
        function.signature.input_arg.add(name=f"v{i}", type=DT_RESOURCE)
        own.signature.input_arg.add(name=f"tfs_v{i}", type=DT_RESOURCE)
        own.node_def.add(name=f"read{i}", op="ReadVariableOp", input=[f"tfs_v{i}"])
        names.append(f"v{i}")
    node = function.node_def.add(name="region", op="StitchStateOp", input=[*names, "^before"])
    node.attr["N"].i = variables
    node.attr["original"].s = own.SerializeToString()
    function.signature.output_arg.add(name="y", type=DT_FLOAT)
    function.ret["y"] = "region:outputs:0"
    return function


def model(variables: list[NodeDef], op: str = "StatefulPartitionedCall") -> MetaGraphDef:
    """A graph that calls such a function with these handles."""
    meta = MetaGraphDef()
    meta.graph_def.node.add(name="x", op="Placeholder")
    meta.graph_def.node.extend(variables)
    call = meta.graph_def.node.add(name="call", op=op, input=["x", *(v.name for v in variables)])
    call.attr["f"].func.name = "inner"
    call.attr["Tin"].list.type.extend([DT_FLOAT, *([DT_RESOURCE] * len(variables))])
    meta.graph_def.library.function.append(region_function(len(variables)))
    return meta


def test_a_call_gets_a_function_that_names_its_variables() -> None:
    meta = model([handle("a", "shared"), handle("b", container="c")])
    name_variables(meta, [SIGNATURE])
    call = meta.graph_def.node[-1]
    assert list(call.input) == ["x"]
    assert list(call.attr["Tin"].list.type) == [DT_FLOAT]
    before, after = meta.graph_def.library.function
    assert len(before.signature.input_arg) == 3  # objects of TensorFlow 2 call it as it was
    assert call.attr["f"].func.name == after.signature.name == f"inner{SUFFIX}_0"
    assert [arg.name for arg in after.signature.input_arg] == ["x"]
    assert not after.attr  # TensorFlow loads no function with attributes that it does not know
    [region] = [node for node in after.node_def if node.op == "StitchStateOp"]
    assert list(region.input) == ["x", "^before"]
    assert region.attr["N"].i == 0
    assert list(region.attr["variable_names"].list.s) == [b"\nshared", b"c\nb"]
    own = FunctionDef.FromString(region.attr["original"].s)
    assert [arg.name for arg in own.signature.input_arg] == ["tfs_i0"]
    assert {node.name: list(node.input) for node in own.node_def if node.op == "ReadVariableOp"} == {
        "read0": ["tfs_v0:resource:0"], "read1": ["tfs_v1:resource:0"]}
    assert {node.attr["shared_name"].s for node in own.node_def if node.op == "VarHandleOp"} == {b"shared", b"b"}


def test_calls_with_the_same_variables_share_a_function_and_others_do_not() -> None:
    meta = model([handle("a")])
    for name, variable in (("second", "a"), ("third", "z")):
        again = meta.graph_def.node.add()
        again.CopyFrom(next(n for n in meta.graph_def.node if n.name == "call"))
        again.name, again.input[1] = name, variable
    meta.graph_def.node.append(handle("z"))
    outputs = tuple(Value(n, f"{n}:0", tf.float32, (4,)) for n in ("call", "second", "third"))
    name_variables(meta, [Signature("serve", SIGNATURE.inputs, outputs)])
    called = {n.name: n.attr["f"].func.name for n in meta.graph_def.node if "f" in n.attr}
    assert called["call"] == called["second"] != called["third"]
    assert len(meta.graph_def.library.function) == 3


def wrapped(meta: MetaGraphDef, results: list[str], inputs: list[str] | None = None) -> MetaGraphDef:
    """The same, but the graph calls a function that calls it, as that of a signature does."""
    outer, inner = FunctionDef(), meta.graph_def.library.function[0]
    inner.signature.output_arg.add(name="z", type=DT_FLOAT)
    inner.ret["z"] = "region:outputs:1"
    outer.signature.name = "wrapper"
    outer.signature.input_arg.extend(inner.signature.input_arg)
    names = [arg.name for arg in inner.signature.input_arg]
    call = outer.node_def.add(name="run", op="StatefulPartitionedCall", input=inputs or names)
    call.attr["f"].func.name = "inner"
    call.attr["Tin"].list.type.extend(arg.type for arg in inner.signature.input_arg)
    outer.node_def.add(name="NoOp", op="NoOp", input=["^run"])
    for i, result in enumerate(results):
        outer.node_def.add(name=f"identity{i}", op="Identity", input=[result, "^NoOp"])
        outer.signature.output_arg.add(name=f"y{i}", type=DT_FLOAT)
        outer.ret[f"y{i}"] = f"identity{i}:output:0"
    outer.control_ret["run"] = "run"
    outer.signature.control_output.append("run")
    meta.graph_def.library.function.append(outer)
    meta.graph_def.node[-1].attr["f"].func.name = "wrapper"
    return meta


def test_a_function_that_only_calls_another_is_left_out() -> None:
    meta = wrapped(model([handle("a"), handle("b")]), ["run:output:0", "run:output:1"])
    name_variables(meta, [SIGNATURE])
    called = meta.graph_def.node[-1].attr["f"].func.name
    assert called.startswith(f"inner{SUFFIX}")
    assert [f.signature.name for f in meta.graph_def.library.function] == ["inner", "wrapper", called]


@pytest.mark.parametrize(("results", "inputs"), [(["run:output:1", "run:output:0"], None), (["run:output:0"], None),
                                                 (["run:output:0", "run:output:1"], ["w", "x", "v0"])])
def test_one_that_gives_others_results_or_arguments_is_called(results: list[str], inputs: list[str] | None) -> None:
    meta = wrapped(model([handle("a")]), results, inputs)
    if inputs:  # the two swap their data
        inner, outer = meta.graph_def.library.function
        for function in (inner, outer):
            function.signature.input_arg.insert(0, function.signature.input_arg.add(name="w", type=DT_FLOAT))
            del function.signature.input_arg[-1]
        outer.node_def[0].input[:2] = ["x", "w"]
        outer.node_def[0].attr["Tin"].list.type.insert(0, DT_FLOAT)
        meta.graph_def.node[-1].input[:] = ["x", "x", "a"]
        meta.graph_def.node[-1].attr["Tin"].list.type.insert(0, DT_FLOAT)
    name_variables(meta, [SIGNATURE])
    assert meta.graph_def.node[-1].attr["f"].func.name.startswith(f"wrapper{SUFFIX}")
    assert len(meta.graph_def.library.function) == 4


def test_what_stands_in_for_reads_is_not_visited_at_each_call() -> None:
    meta = model([handle("a"), handle("b")])
    inner = meta.graph_def.library.function[0]
    for name in ("read_a", "read_b"):
        inner.node_def.add(name=name, op="NoOp", input=["^region"])
        inner.control_ret[name] = name
        inner.signature.control_output.append(name)
    inner.node_def.add(name="order", op="NoOp", input=["^region", "^before"])
    inner.control_ret["order"] = "order"
    inner.signature.control_output.append("order")
    name_variables(meta, [SIGNATURE])
    after = meta.graph_def.library.function[-1]
    assert [node.name for node in after.node_def] == ["region", "order"]
    assert dict(after.control_ret) == {"region": "region", "order": "order"}
    assert sorted(after.signature.control_output) == ["order", "region"]


def test_a_variable_that_others_read_keeps_its_name_s_node() -> None:
    meta = model([handle("a"), handle("b")])
    meta.graph_def.library.function[0].node_def.add(name="assign", op="AssignVariableOp", input=["v1", "x"])
    name_variables(meta, [SIGNATURE])
    after = meta.graph_def.library.function[-1]
    assert [node.name for node in after.node_def if node.op == "VarHandleOp"] == ["v1"]


def test_a_function_without_regions_that_read_variables_stays_as_it_is() -> None:
    meta = model([handle("a")])
    del meta.graph_def.library.function[0].node_def[:]
    before = meta.SerializeToString(deterministic=True)
    name_variables(meta, [SIGNATURE])
    assert meta.SerializeToString(deterministic=True) == before


def test_what_no_signature_reaches_stays_as_it_is() -> None:
    meta = model([handle("a")])
    before = meta.SerializeToString(deterministic=True)
    name_variables(meta, [Signature("other", SIGNATURE.inputs, (Value("y", "x:0", tf.float32, (4,)),))])
    assert meta.SerializeToString(deterministic=True) == before
