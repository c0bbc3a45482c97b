"""Resource variables and optimizer steps: what a step leaves behind is what TensorFlow leaves."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check_state, trace
from tests.frontend.values import normal, positive

RAW = tf.raw_ops
SHAPE = (3, 4)


def _slots(count: int, dtype: str = "float32") -> list[tf.Variable]:
    return [tf.Variable(positive(SHAPE, dtype, i)) for i in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
def test_assignments(dtype: str) -> None:
    a, b, c = (tf.Variable(normal(SHAPE, dtype, i)) for i in range(3))

    def step(x):
        a.assign(b.read_value() + x)
        b.assign_add(x)
        c.assign_sub(x * x)

    check_state(step, [a, b, c], normal(SHAPE, dtype, 5))


def test_reads_and_writes_name_the_handle() -> None:
    v = tf.Variable(normal(SHAPE))

    def step(x):
        RAW.AssignAddVariableOp(resource=RAW.Identity(input=v.handle), value=x)

    traced = trace(step, tf.TensorSpec(SHAPE))
    node = next(n for n in traced.imported.nodes.values() if n.op == "AssignAddVariableOp")
    handle = next(n for n in traced.imported.nodes if traced.imported.nodes[n].op == "Placeholder" and n != "x")
    assert node.reads == (f"{handle}:0",)
    assert list(node.writes) == [f"{handle}:0"]
    assert node.outputs == ()


def _apply(op: str, slots: int, hyper: dict[str, float], names: tuple[str, ...], dtype: str, **attrs: bool) -> None:
    variables = _slots(slots, dtype)

    def step(grad):
        handles = {name: v.handle for name, v in zip(names, variables, strict=True)}
        constants = {name: tf.constant(value, dtype) for name, value in hyper.items()}
        getattr(RAW, op)(**handles, **constants, grad=grad, **attrs)

    check_state(step, variables, normal(SHAPE, dtype, 7))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_optimizers_with_nesterov(dtype: str, nesterov: bool) -> None:
    _apply("ResourceApplyMomentum", 2, {"lr": 0.1, "momentum": 0.9}, ("var", "accum"), dtype, use_nesterov=nesterov)
    _apply("ResourceApplyKerasMomentum", 2, {"lr": 0.1, "momentum": 0.9}, ("var", "accum"), dtype,
           use_nesterov=nesterov)
    _apply("ResourceApplyAdam", 3, {"beta1_power": 0.81, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.99,
                                    "epsilon": 1e-3}, ("var", "m", "v"), dtype, use_nesterov=nesterov)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimizers(dtype: str) -> None:
    _apply("ResourceApplyRMSProp", 3, {"lr": 0.1, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-3},
           ("var", "ms", "mom"), dtype)
    _apply("ResourceApplyAdadelta", 3, {"lr": 0.1, "rho": 0.9, "epsilon": 1e-3}, ("var", "accum", "accum_update"),
           dtype)
    _apply("ResourceApplyAdaMax", 3, {"beta1_power": 0.81, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3},
           ("var", "m", "v"), dtype)
    for update in (True, False):
        _apply("ResourceApplyAdagrad", 2, {"lr": 0.1}, ("var", "accum"), dtype, update_slots=update)
        _apply("ResourceApplyAdagradV2", 2, {"lr": 0.1, "epsilon": 1e-3}, ("var", "accum"), dtype, update_slots=update)


def test_gradient_descent() -> None:
    variable, = _slots(1)

    def step(delta):
        RAW.ResourceApplyGradientDescent(var=variable.handle, alpha=0.1, delta=delta)

    check_state(step, [variable], normal(SHAPE))


def test_centered_rmsprop() -> None:
    variables = [tf.Variable(v) for v in (normal(SHAPE), 0.1 * normal(SHAPE), positive(SHAPE) + 2, normal(SHAPE))]

    def step(grad):
        var, mg, ms, mom = (v.handle for v in variables)
        RAW.ResourceApplyCenteredRMSProp(var=var, mg=mg, ms=ms, mom=mom, lr=0.1, rho=0.9, momentum=0.5, epsilon=1e-2,
                                         grad=grad)

    check_state(step, variables, normal(SHAPE, seed=3))


def test_int32_variables_of_a_gpu_stay() -> None:
    from tests.frontend.check import types_of_graph
    from tf_stitch.frontend.tensorflow.importer import import_graph

    v = tf.Variable(np.zeros(3, np.int32))
    concrete = tf.function(lambda x: v.assign_add(x)).get_concrete_function(tf.TensorSpec([3], tf.int32))
    graph_def = concrete.graph.as_graph_def()
    for node in graph_def.node:
        node.device = "/job:localhost/replica:0/task:0/device:GPU:0"
    imported = import_graph(graph_def, types_of_graph(concrete.graph))
    reasons = [n.reason for n in imported.nodes.values() if n.op == "AssignAddVariableOp"]
    assert reasons == ["int32 variables of a GPU live in host memory"]
