"""Convolutions and their gradients against TensorFlow, wherever its kernels for CPUs compute them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import LIBRARY_ON, check, trace, types_of_graph
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret

RNG = np.random.default_rng(0)
PADDINGS: list[Any] = ["SAME", "VALID", [[0, 0], [2, 1], [0, 3], [0, 0]]]


def images(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("padding", PADDINGS, ids=["same", "valid", "explicit"])
@pytest.mark.parametrize(("strides", "dilations"), [(1, 1), (2, 1), ((2, 3), 1), (1, (2, 1))])
def test_forward(padding: Any, strides: Any, dilations: Any) -> None:
    check(lambda x, w: tf.nn.conv2d(x, w, strides, padding, dilations=dilations), images(2, 9, 8, 3),
          images(3, 2, 3, 5))


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16], ids=lambda d: d.name)
def test_types(dtype: tf.DType) -> None:
    check(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), images(1, 5, 6, 3, dtype=dtype.as_numpy_dtype),
          images(3, 3, 3, 2, dtype=dtype.as_numpy_dtype))


@pytest.mark.parametrize("padding", PADDINGS, ids=["same", "valid", "explicit"])
@pytest.mark.parametrize("strides", [1, (3, 2)])
def test_gradients(padding: Any, strides: Any) -> None:
    def gradients(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = tf.nn.conv2d(x, w, strides, padding)
            loss = tf.reduce_sum(y * tf.sin(y))
        return tape.gradient(loss, (x, w))

    check(gradients, images(2, 10, 7, 3), images(4, 3, 3, 5), rtol=2e-4)


def depthwise(x: Any, w: Any, strides: int, padding: Any, dilations: tuple[int, int] = (1, 1)) -> Any:
    explicit = isinstance(padding, list)
    return tf.raw_ops.DepthwiseConv2dNative(
        input=x, filter=w, strides=[1, strides, strides, 1], dilations=[1, *dilations, 1],
        padding="EXPLICIT" if explicit else padding,
        explicit_paddings=[p for pair in padding for p in pair] if explicit else [])


@pytest.mark.parametrize("padding", PADDINGS, ids=["same", "valid", "explicit"])
@pytest.mark.parametrize(("strides", "filters"), [(1, 1), (2, 2)])
def test_depthwise(padding: Any, strides: int, filters: int) -> None:
    def run(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = depthwise(x, w, strides, padding)
            loss = tf.reduce_sum(y * tf.sin(y))
        return (y, *tape.gradient(loss, (x, w)))

    traced = check(run, images(2, 9, 8, 3), images(3, 2, 3, filters), rtol=2e-4)
    assert {n.attrs.groups for n in convolutions_of(traced.imported)} == {3}


@pytest.mark.parametrize("padding", PADDINGS, ids=["same", "valid", "explicit"])
def test_depthwise_with_dilations(padding: Any) -> None:
    """TensorFlow has them on GPUs and in oneDNN, which it does not use on each processor; never in gradients."""
    def with_holes(x: Any, w: Any) -> Any:
        rows = tf.stack([w, tf.zeros_like(w)], axis=1)
        return depthwise(x, tf.reshape(rows, (6, 2, 3, 2))[:-1], 1, padding)

    traced = check(lambda x, w: depthwise(x, w, 1, padding, (2, 1)), images(2, 9, 8, 3), images(3, 2, 3, 2),
                   rtol=2e-4, same_as=with_holes)
    assert [(n.attrs.groups, n.attrs.dilations) for n in convolutions_of(traced.imported)] == [(3, (2, 1))]


def test_groups_are_told_by_the_filters() -> None:
    """TensorFlow's kernels for CPUs have groups, but no gradients with any."""
    x, w = images(2, 6, 5, 6), images(3, 3, 2, 9)
    traced = check(lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), x, w)
    assert [n.attrs.groups for n in convolutions_of(traced.imported)] == [3]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("window", "strides"), [
    ((3, 2, 4), (1, 1, 1)), ((3, 2, 4), (2, 1, 3)), ((1, 3, 3), (1, 2, 1)), ((3, 1, 1), (1, 1, 1)),
    ((1, 1, 1), (1, 1, 1))])
def test_volumes(padding: str, window: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Where strides are larger than windows, SAME is something else for TensorFlow's kernel for CPUs than for GPUs'."""
    def run(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = tf.nn.conv3d(x, w, [1, *strides, 1], padding)
            loss = tf.reduce_sum(y * tf.sin(y))
        return (y, *tape.gradient(loss, (x, w)))

    check(run, images(2, 5, 7, 6, 3) / 4, images(*window, 3, 5), rtol=2e-4)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16], ids=lambda d: d.name)
def test_types_of_volumes(dtype: tf.DType) -> None:
    check(lambda x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"), images(1, 4, 5, 6, 3, dtype=dtype.as_numpy_dtype),
          images(2, 2, 1, 3, 2, dtype=dtype.as_numpy_dtype) / 4)


def volumes_by_numpy(dilations: tuple[int, int, int], groups: int, x: Any, w: Any, grad: Any) -> list[Any]:
    """A convolution without padding and its gradients in float64, place by place: what TensorFlow's kernels for CPUs do
    not have. TensorFlow infers sizes for the dilations of height and width exchanged: what differs stays its own."""
    x, w, grad = (np.asarray(a, np.float64) for a in (x, w, grad))
    size = [d - dilation * (extent - 1) for d, dilation, extent in zip(x.shape[1:4], dilations, w.shape, strict=False)]
    y, dx, dw = np.zeros((len(x), *size, w.shape[-1])), np.zeros_like(x), np.zeros_like(w)
    each, kept = x.shape[-1] // groups, w.shape[-1] // groups
    for *place, group in np.ndindex(*w.shape[:3], groups):
        of, to = slice(group * each, (group + 1) * each), slice(group * kept, (group + 1) * kept)
        seen = (slice(None), *(slice(i * dilation, i * dilation + d) for i, dilation, d in zip(
            place, dilations, size, strict=True)), of)
        at = (*place, slice(None), to)
        y[..., to] += x[seen] @ w[at]
        dx[seen] += grad[..., to] @ w[at].T
        dw[at] = np.einsum("ndhwc,ndhwk->ck", x[seen], grad[..., to])
    return [y, dx, dw]


@pytest.mark.parametrize(("dilations", "groups"), [((2, 3, 3), 1), ((1, 1, 1), 3), ((3, 1, 1), 2), ((1, 1, 1), 6)])
@pytest.mark.parametrize("first", [False, True])
def test_volumes_with_dilations_and_groups(dilations: tuple[int, int, int], groups: int, first: bool) -> None:
    x, w = images(2, 6, 5, 8, 6), images(2, 2, 2, 6 // groups, 6)
    grad = images(2, *(d - dilation for d, dilation in zip((6, 5, 8), dilations, strict=True)), 6)
    turn, back = ([0, 4, 1, 2, 3], [0, 2, 3, 4, 1]) if first else ([0, 1, 2, 3, 4],) * 2

    def run(x: Any, w: Any, grad: Any) -> Any:
        settings = {"strides": [1] * 5, "padding": "VALID", "data_format": "NCDHW" if first else "NDHWC",
                    "dilations": [1, 1, *dilations] if first else [1, *dilations, 1]}
        x, grad = tf.transpose(x, turn), tf.transpose(grad, turn)
        y = tf.raw_ops.Conv3D(input=x, filter=w, **settings)
        dx = tf.raw_ops.Conv3DBackpropInputV2(input_sizes=x.shape, filter=w, out_backprop=grad, **settings)
        dw = tf.raw_ops.Conv3DBackpropFilterV2(input=x, filter_sizes=w.shape, out_backprop=grad, **settings)
        return tf.transpose(y, back), tf.transpose(dx, back), dw

    traced = check(run, x, w, grad, rtol=2e-4, same_as=lambda x, w, grad: [
        tf.constant(a, tf.float32) for a in volumes_by_numpy(dilations, groups, x, w, grad)])
    assert [(n.attrs.groups, n.attrs.dilations) for n in convolutions_of(traced.imported)] == [(groups, dilations)] * 3


def test_a_batch_of_volumes_of_unknown_size() -> None:
    check(lambda x, w: tf.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"), images(3, 4, 5, 6, 2), images(3, 3, 2, 2, 4),
          specs=[tf.TensorSpec((None, 4, 5, 6, 2)), tf.TensorSpec((3, 3, 2, 2, 4))])


def convolutions_of(imported: Any) -> list[Node]:
    outputs = [("o", v) for n in imported.nodes.values() for v in n.outputs if v is not None]
    return [n for n in TensorGraph("g", outputs).nodes() if n.category.value == "convolution"]


CHANNELS_FIRST = {
    "Conv2D": lambda x, w, g: tf.raw_ops.Conv2D(
        input=x, filter=w, strides=[1, 1, 2, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 0, 0, 1, 2, 0, 1],
        data_format="NCHW"),
    "Conv2DBackpropInput": lambda x, w, g: tf.raw_ops.Conv2DBackpropInput(
        input_sizes=[2, 3, 7, 6], filter=w, out_backprop=g, strides=[1, 1, 2, 1], padding="EXPLICIT",
        explicit_paddings=[0, 0, 0, 0, 1, 2, 0, 1], data_format="NCHW"),
    "Conv2DBackpropFilter": lambda x, w, g: tf.raw_ops.Conv2DBackpropFilter(
        input=x, filter_sizes=[3, 2, 3, 5], out_backprop=g, strides=[1, 1, 2, 1], padding="EXPLICIT",
        explicit_paddings=[0, 0, 0, 0, 1, 2, 0, 1], data_format="NCHW")}


def channels_last(op: str, x: Any, w: Any, g: Any) -> Any:
    """The same by TensorFlow's kernels for CPUs, which have channels last."""
    settings = {"strides": [1, 2, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}
    x, g = tf.transpose(x, [0, 2, 3, 1]), tf.transpose(g, [0, 2, 3, 1])
    if op == "Conv2D":
        return tf.transpose(tf.raw_ops.Conv2D(input=x, filter=w, **settings), [0, 3, 1, 2])
    if op == "Conv2DBackpropInput":
        return tf.transpose(tf.raw_ops.Conv2DBackpropInput(input_sizes=x.shape, filter=w, out_backprop=g, **settings),
                            [0, 3, 1, 2])
    return tf.raw_ops.Conv2DBackpropFilter(input=x, filter_sizes=w.shape, out_backprop=g, **settings)


@pytest.mark.parametrize("op", CHANNELS_FIRST)
def test_channels_first(op: str) -> None:
    x, w, g = images(2, 3, 7, 6), images(3, 2, 3, 5), images(2, 5, 4, 6)
    with tf.Graph().as_default() as graph:
        x_in, w_in, g_in = (tf.compat.v1.placeholder(tf.float32, a.shape, name) for a, name in ((x, "x"), (w, "w"),
                                                                                           (g, "g")))
        out = CHANNELS_FIRST[op](x_in, w_in, g_in)
    imported = import_graph(graph.as_graph_def(), types_of_graph(graph),
                            library_on=LIBRARY_ON)
    node = imported.value(out.name)
    assert node is not None, imported.nodes[out.op.name].reason
    got = interpret(TensorGraph("g", [("o", node)]), {"x:0": x, "w:0": w, "g:0": g})["o"]
    np.testing.assert_allclose(got, channels_last(op, x, w, g), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scope", [None, Matmuls.SMALL, Matmuls.ALL])
def test_without_the_library_they_stay_tensorflows(scope: Matmuls | None) -> None:
    traced = tf.function(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME")).get_concrete_function(
        tf.TensorSpec((2, 6, 5, 3)), tf.TensorSpec((3, 3, 3, 4)))
    imported = import_graph(traced.graph.as_graph_def(), types_of_graph(traced.graph),
                            library_on={} if scope is None else {"CPU": scope})
    [reason] = [n.reason for n in imported.nodes.values() if n.op == "Conv2D"]
    assert reason == "Conv2D is a library call"


def test_images_of_unknown_size_stay_tensorflows() -> None:
    traced = trace(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), tf.TensorSpec((2, None, 5, 3)),
                   tf.TensorSpec((3, 3, 3, 4)))
    assert "a convolution of sizes that are decided at run time" in traced.opaque().values()


def test_a_batch_of_unknown_size() -> None:
    x = images(3, 5, 6, 2)
    check(lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), x, images(3, 3, 2, 4),
          specs=[tf.TensorSpec((None, 5, 6, 2)), tf.TensorSpec((3, 3, 2, 4))])


RELU = {("BiasAdd",): lambda y: y, ("BiasAdd", "Relu"): tf.nn.relu, ("BiasAdd", "Relu6"): tf.nn.relu6,
        ("BiasAdd", "Elu"): tf.nn.elu, ("BiasAdd", "LeakyRelu"): tf.nn.leaky_relu, ("BiasAdd", "_MklSwish"): tf.nn.silu}


@pytest.mark.parametrize("fused", RELU, ids="+".join)
def test_fused_by_the_remapper(fused: tuple[str, ...]) -> None:
    values = {"x": images(2, 6, 5, 3), "w": images(3, 3, 3, 4), "b": images(4)}
    imported = import_fused(fused, values)
    node = imported.value("fused:0")
    assert node is not None, imported.nodes["fused"].reason
    got = interpret(TensorGraph("g", [("o", node)]), {f"{name}:0": value for name, value in values.items()})["o"]
    want = RELU[fused](tf.nn.conv2d(values["x"], values["w"], 1, "SAME") + values["b"])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_fused_with_what_we_do_not_know() -> None:
    values = {"x": images(2, 6, 5, 3), "w": images(3, 3, 3, 4), "b": images(4)}
    for fused in (("BiasAdd", "Selu"), ("BiasAdd", "Relu", "Relu"), ("Relu",), ("BiasAdd", "Add"), ("FusedBatchNorm",)):
        assert import_fused(fused, values).nodes["fused"].reason == f"_FusedConv2D with {', '.join(fused)}"


def import_fused(fused: tuple[str, ...], values: dict[str, Any]) -> Any:
    """The graph of one _FusedConv2D, which only Grappler makes."""
    with tf.Graph().as_default() as graph:
        for name, value in values.items():
            tf.compat.v1.placeholder(tf.float32, value.shape, name)
        graph_def = graph.as_graph_def()
    node = graph_def.node.add(name="fused", op="_FusedConv2D", input=["x", "w", "b"])
    node.attr["T"].type = tf.float32.as_datatype_enum
    node.attr["padding"].s = b"SAME"
    node.attr["strides"].list.i.extend([1, 1, 1, 1])
    node.attr["fused_ops"].list.s.extend(name.encode() for name in fused)
    node.attr["num_args"].i = 1
    node.attr["leakyrelu_alpha"].f = 0.2
    node.attr["TArgs"].list.type.append(tf.float32.as_datatype_enum)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    return import_graph(graph.as_graph_def(), types_of_graph(graph),
                        library_on=LIBRARY_ON)


@pytest.mark.parametrize(("filters", "dtype", "inside"), [
    (1, np.float32, True), (1, np.float64, True), (2, np.float32, False), (1, np.float16, False)])
def test_kernels_of_cpus_take_depthwise_convolutions_of_one_filter_a_channel(filters: int, dtype: Any, inside: bool
                                                                              ) -> None:
    """Of any number of images, where regions hold small matmuls; never another convolution, or a gradient."""
    def run(x: Any, w: Any, v: Any) -> Any:
        y = depthwise(x, w, 1, "SAME")
        return tf.nn.conv2d(y, v, 1, "SAME"), tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
            input=x, filter_sizes=[3, 3, 4, filters], out_backprop=y, strides=[1] * 4, padding="SAME")

    shapes = (None, 9, 8, 4), (3, 3, 4, filters), (1, 1, 4 * filters, 5)
    concrete = tf.function(run).get_concrete_function(*(tf.TensorSpec(s, dtype) for s in shapes))
    imported = import_graph(concrete.graph.as_graph_def(), types_of_graph(concrete.graph), {"CPU": Matmuls.SMALL})
    reasons = {n.op: n.reason for n in imported.nodes.values()}
    assert (reasons["DepthwiseConv2dNative"] is None) is inside
    assert reasons["Conv2D"] is not None
    assert reasons["DepthwiseConv2dNativeBackpropFilter"] is not None
