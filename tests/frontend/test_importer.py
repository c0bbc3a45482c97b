"""What the importer says of whole graphs: order, reasons, owners, variables, loops."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import trace, types_of_graph
from tests.frontend.values import normal
from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.attributes import NodeAttrs
from tf_stitch.frontend.tensorflow.export_table import EXPORTS
from tf_stitch.frontend.tensorflow.exporter import run_with_tensorflow
from tf_stitch.frontend.tensorflow.importer import canonical_tensor, import_graph
from tf_stitch.frontend.tensorflow.registry import BARRIERS, LEGALIZATIONS
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import WindowsAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Symbol


def _import(graph_def, types):
    return import_graph(graph_def, lambda name: types.get(name, [(1, (3,))]))


def _node(graph_def, name, op, inputs=(), **types):
    node = graph_def.node.add(name=name, op=op, input=inputs)
    for key, value in types.items():
        node.attr[key].type = value
    return node


def test_every_op_kind_has_an_export() -> None:
    assert set(EXPORTS) == set(OpKind) - {OpKind.INPUT, OpKind.VARIABLE, OpKind.LOOP}


def test_windows_are_exported() -> None:
    """No op of TensorFlow's becomes windows, so that nothing else compares them."""
    b = Builder()
    x = b.input("x:0", DType.F32, (2, 9, 11, 4))
    graph = TensorGraph("g", [("y", b.windows(x, WindowsAttrs((3, 2), (2, 3), (2, 3), (3, 1))))])
    values = {"x:0": np.random.default_rng(0).standard_normal((2, 9, 11, 4)).astype(np.float32)}
    np.testing.assert_array_equal(run_with_tensorflow(graph, values)["y"], interpret(graph, values)["y"])


def test_legalisations_are_of_ops_that_exist_and_are_no_barriers() -> None:
    from tensorflow.python.framework import op_def_registry

    assert not set(LEGALIZATIONS) & set(BARRIERS)
    unknown = {op for op in LEGALIZATIONS if op_def_registry.get(op) is None}
    assert not unknown


def test_order_inputs_and_owner() -> None:
    graph = tf.compat.v1.GraphDef()
    _node(graph, "b", "Neg", ["c:0", "^late"], T=1)
    _node(graph, "c", "Identity", ["x"], T=1)
    _node(graph, "late", "NoOp", ["^x"])
    _node(graph, "x", "Placeholder", dtype=1)
    imported = _import(graph, {"late": []})
    order = list(imported.nodes)
    assert order.index("x") < order.index("late") < order.index("b")
    assert imported.nodes["b"].inputs == ("c:0",)
    assert imported.nodes["b"].control_inputs == ("late",)
    x = imported.value("x:0")
    assert imported.value("c:0") is x
    assert imported.owner[x] == "x:0"
    assert imported.nodes["c"].weight == 0
    assert imported.nodes["b"].weight == 1
    assert canonical_tensor("c") == "c:0"


def test_symbols_of_grappler() -> None:
    graph = tf.compat.v1.GraphDef()
    _node(graph, "x", "Placeholder", dtype=1)
    _node(graph, "y", "Placeholder", dtype=1)
    imported = _import(graph, {"x": [(1, (-5, 3))], "y": [(1, (-5, -1))]})
    assert imported.value("x:0").type.shape == (Symbol("s5"), 3)
    assert imported.value("y:0").type.shape == (Symbol("s5"), Symbol("u_y_0_1"))


@pytest.mark.parametrize(("change", "reason"), [
    (lambda n: n.attr["brand_new"].CopyFrom(tf.compat.v1.AttrValue(b=True)), "attribute brand_new is not known"),
    (lambda n: n.attr["_XlaMustCompile"].CopyFrom(tf.compat.v1.AttrValue(b=True)), "XLA compiles it"),
    (lambda n: setattr(n, "device", "/job:localhost/task:0/device:TPU:0"), "placed on"),
    (lambda n: setattr(n, "op", "MatMul"), "MatMul is a library call"),
    (lambda n: setattr(n, "op", "NobodyKnowsIt"), "NobodyKnowsIt has no legalisation"),
])
def test_reasons(change, reason: str) -> None:
    graph = tf.compat.v1.GraphDef()
    _node(graph, "x", "Placeholder", dtype=1)
    node = _node(graph, "y", "Neg", ["x"], T=1)
    change(node)
    imported = _import(graph, {})
    assert imported.nodes["y"].reason.startswith(reason)
    value = imported.value("y:0")
    assert value.kind is OpKind.INPUT
    assert value.attrs.key == "y:0"


def test_private_attributes_and_devices_do_not_matter() -> None:
    graph = tf.compat.v1.GraphDef()
    _node(graph, "x", "Placeholder", dtype=1)
    node = _node(graph, "y", "Neg", ["x"], T=1)
    node.attr["_XlaCompile"].b = False
    node.attr["_output_shapes"].s = b"x"
    for device in ("", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:GPU:1", "/gpu:0"):
        node.device = device
        assert _import(graph, {}).nodes["y"].reason is None
    assert NodeAttrs(node).unknown() is None


def test_parts_of_a_partition_have_different_sizes() -> None:
    """TensorFlow's shape function gives them one; what a part is made of keeps it in what is made of that."""
    graph_def = tf.compat.v1.GraphDef()
    types = {"x": [(1, (-2, 4))], "parts": [(3, (-2,))], "split": [(1, (-3, 4)), (1, (-3, 4))],
             "one": [(1, (-3, 4))], "more": [(1, (-3, 4))], "other": [(1, (-3, 4))]}
    for name, dtype in (("x", 1), ("parts", 3)):
        graph_def.node.add(name=name, op="Placeholder").attr["dtype"].type = dtype
    split = graph_def.node.add(name="split", op="DynamicPartition", input=["x", "parts"])
    split.attr["num_partitions"].i, split.attr["T"].type = 2, 1
    for name, source in (("one", "split"), ("more", "one"), ("other", "split:1")):
        graph_def.node.add(name=name, op="Tanh", input=[source]).attr["T"].type = 1
    imported = import_graph(graph_def, lambda name: types[name])
    one, more, other = (imported.nodes[name].outputs[0] for name in ("one", "more", "other"))
    assert one is not None
    assert more is not None
    assert other is not None
    assert one.type.shape[0] == more.type.shape[0] != other.type.shape[0]
    assert one.type.shape[1] == 4


def test_contradiction_with_shape_inference_stays() -> None:
    graph = tf.compat.v1.GraphDef()
    _node(graph, "x", "Placeholder", dtype=1)
    _node(graph, "y", "Neg", ["x"], T=1)
    imported = _import(graph, {"y": [(1, (4,))]})
    assert imported.nodes["y"].reason == "output 0 has the shape [4], the IR's is float32[3]"
    assert _import(graph, {"x": [(1, None)]}).nodes["y"].reason.startswith("input x:0 has a dtype or rank")


def test_cycles_and_dangling_inputs_are_refused() -> None:
    graph = tf.compat.v1.GraphDef()
    _node(graph, "a", "Neg", ["b"], T=1)
    with pytest.raises(UnsupportedError, match="not a node"):
        _import(graph, {})
    _node(graph, "b", "Neg", ["a"], T=1)
    with pytest.raises(UnsupportedError, match="cycle"):
        _import(graph, {})


def test_loops() -> None:
    """Lowered while loops: frames are barriers, what is inside is ordinary."""
    with tf.Graph().as_default() as graph:
        tf.compat.v1.disable_control_flow_v2()
        x = tf.compat.v1.placeholder(tf.float32, [3], "x")
        tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y) * 2), [0, x], name="loop")
        tf.compat.v1.enable_control_flow_v2()
    imported = import_graph(graph.as_graph_def(), types_of_graph(graph))
    reasons = {n.op: n.reason for n in imported.nodes.values()}
    assert reasons["Merge"] == "Merge bounds a branch or a loop"
    assert reasons["Tanh"] is None
    assert reasons["Mul"] is None


def test_each_access_to_a_variable_is_a_value_of_its_own() -> None:
    v = tf.Variable(normal((3,)))

    def step(x):
        before = v.read_value()
        v.assign_add(x)
        return before, v.read_value()

    imported = trace(step, tf.TensorSpec([3])).imported
    reads = [n.outputs[0] for n in imported.nodes.values() if n.op == "ReadVariableOp"]
    assert len(reads) == len(set(reads)) > 1
    assert all(r.kind is OpKind.VARIABLE for r in reads)


def test_exports_run_inside_an_executor_thread() -> None:
    """The fallback of a region runs where TensorFlow calls it."""
    imported = trace(lambda x: tf.nn.softmax(tf.tanh(x)), tf.TensorSpec([2, 3])).imported
    graph = TensorGraph("region", [("y", imported.value("Identity:0"))])

    def region(x):
        return run_with_tensorflow(graph, {"x:0": x.numpy()})["y"]

    x = normal((2, 3))
    y = tf.function(lambda x: tf.py_function(region, [x], tf.float32))(x)
    np.testing.assert_allclose(y, tf.nn.softmax(tf.tanh(x)), 1e-6)


def test_random_and_calls_stay() -> None:
    traced = trace(lambda x: x + tf.random.uniform([3]) + tf.py_function(lambda v: v, [x], tf.float32),
                   tf.TensorSpec([3]))
    reasons = " ".join(traced.opaque().values())
    assert "RandomUniform draws random numbers" in reasons
    assert "EagerPyFunc calls a function" in reasons
