"""Ops of one operand, and activations, against TensorFlow's CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace
from tests.frontend.values import FLOATS, NUMBERS, SHAPES, normal, positive, special

RAW = tf.raw_ops
FLOAT_OPS = ("Exp", "Expm1", "Sqrt", "Rsqrt", "Reciprocal", "Tanh", "Sigmoid", "Erf", "Erfc", "Sin", "Cos", "Tan",
             "Atan", "Sinh", "Asinh", "Lgamma", "Floor", "Ceil", "IsNan", "IsInf", "IsFinite", "Log", "Log1p", "Acosh",
             "Cosh", "Asin", "Acos", "Atanh")
NUMBER_OPS = ("Neg", "Abs", "Sign", "Square", "OnesLike", "ZerosLike")
ACTIVATIONS = ("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "LeakyRelu")


@pytest.mark.parametrize("op", FLOAT_OPS)
def test_float_op(op: str) -> None:
    function = getattr(RAW, op)
    for dtype in FLOATS[:3] if op == "Lgamma" else FLOATS:  # TensorFlow has no kernel for bfloat16
        check(lambda x: function(x=x), normal((3, 4), dtype), rtol=5e-2 if dtype == "bfloat16" else None)
    for shape in SHAPES:
        check(lambda x: function(x=x), positive(shape), graphs=False)


@pytest.mark.parametrize("op", [op for op in FLOAT_OPS if op not in ("Sin", "Cos", "Tan", "Lgamma")])
def test_float_op_of_special_values(op: str) -> None:
    check(lambda x: getattr(RAW, op)(x=x), special(), graphs=False)


@pytest.mark.parametrize("op", NUMBER_OPS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_number_op(op: str, dtype: str) -> None:
    check(lambda x: getattr(RAW, op)(x=x), normal((3, 4), dtype))
    if dtype in FLOATS:
        check(lambda x: getattr(RAW, op)(x=x), special(dtype), graphs=False)


def test_rounding_is_half_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.49], np.float32)
    check(lambda x: (RAW.Rint(x=x), RAW.Round(x=x)), x)


def test_composition_of_the_arithmetic_optimizer() -> None:
    from tensorflow.compat.v1 import GraphDef

    from tf_stitch.frontend.tensorflow.importer import import_graph
    from tf_stitch.ir.graph import TensorGraph
    from tf_stitch.ir.interpreter import interpret

    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = graph.node.add(name="y", op="_UnaryOpsComposition", input=["x"])
    node.attr["T"].type = 1
    node.attr["op_names"].list.s.extend([b"Square", b"Tanh", b"Relu"])
    y = import_graph(graph, lambda name: [(1, (3,))]).value("y:0")
    assert y is not None
    x = normal((3,))
    np.testing.assert_allclose(interpret(TensorGraph("y", [("y", y)]), {"x:0": x})["y"], np.tanh(x * x), 1e-6)


def test_bits() -> None:
    check(lambda x: RAW.Invert(x=x), normal((7,), "int32"))
    check(lambda x: RAW.LogicalNot(x=x), np.array([True, False]))


@pytest.mark.parametrize("source", [*NUMBERS, "bool"])
@pytest.mark.parametrize("target", [*NUMBERS, "bool"])
def test_cast(source: str, target: str) -> None:
    x = normal((9,), "int32") > 0 if source == "bool" else normal((9,), source)
    check(lambda x: tf.cast(x, target), x, graphs=False)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", ["int32", "int64", "bool", "float16"])
def test_cast_of_special_values(source: str, target: str) -> None:
    check(lambda x: RAW.Cast(x=x, DstT=target), special(source), graphs=False)


@pytest.mark.parametrize("op", ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_activation(op: str, dtype: str) -> None:
    function = getattr(RAW, op)
    check(lambda x: function(features=x), normal((4, 5), dtype))
    check(lambda x: function(features=x), special(dtype), graphs=False)
    check(lambda x: function(features=x), np.linspace(-30, 30, 41).astype(np.float32), graphs=False)


GRADIENTS = {"ReluGrad": "features", "Relu6Grad": "features", "LeakyReluGrad": "features", "SoftplusGrad": "features",
             "SoftsignGrad": "features", "EluGrad": "outputs", "SeluGrad": "outputs"}


@pytest.mark.parametrize("op", GRADIENTS)
def test_activation_gradient(op: str) -> None:
    def function(dy, x):
        return getattr(RAW, op)(gradients=dy, **{GRADIENTS[op]: x})

    for dtype in FLOATS:
        check(function, normal((4, 5), dtype, 1), normal((4, 5), dtype, 2))
    check(function, normal((13,), seed=3), special(), graphs=False)
    check(function, special(), normal((13,), seed=3), graphs=False)


@pytest.mark.parametrize("op", ["SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "TanhGrad", "SigmoidGrad", "InvGrad"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient_from_output(op: str, dtype: str) -> None:
    check(lambda y, dy: getattr(RAW, op)(y=y, dy=dy), positive((3, 4), dtype), normal((3, 4), dtype, 1))


@pytest.mark.parametrize("op", ["SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "TanhGrad"])
def test_gradient_from_special_output(op: str) -> None:
    y, dy = np.meshgrid(np.float32([np.inf, np.nan, 0, 1e30, 2]), np.float32([0, -0.0, 1, np.inf, np.nan]))
    check(lambda y, dy: getattr(RAW, op)(y=y, dy=dy), y, dy, graphs=False)


def test_gelu_forward_and_backward() -> None:
    def function(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            exact, tanh = tf.nn.gelu(x), tf.nn.gelu(x, approximate=True)
        return exact, tanh, tape.gradient(exact, x), tape.gradient(tanh, x)

    check(function, normal((3, 7)))


def test_bitcast() -> None:
    check(lambda x: tf.bitcast(x, tf.int32), special())
    stays = trace(lambda x: tf.bitcast(x, tf.int32), tf.TensorSpec([3], tf.float64)).opaque()
    assert stays == {"Bitcast (Bitcast)": "bits: float32 is needed, not float64[3]"}
