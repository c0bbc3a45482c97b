"""Training steps of Keras models: every legalised tensor and every variable written has TensorFlow's value, given
the values of what stays; and what stays is what has to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, losses, optimizers

from tests.frontend.check import types_of_graph
from tests.frontend.values import normal
from tf_stitch.frontend.tensorflow.importer import ImportedGraph, import_graph
from tf_stitch.ir.bind import bind
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import InputAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import OpKind

STAYS = ("library call", "pooling", "random", "shape arithmetic", "enter or leave", "control edges", "scatters",
         "decided at run time",
         "by rows", "is not in the IR", "is a resource", "branch or a loop", "list of tensors")


def _step(model: Any, optimizer: Any, loss: Any) -> Callable[[Any, Any], Any]:
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return value

    return step


def _verify(model: Any, optimizer: Any, loss: Any, x: Any, y: Any, batch: int | None, ambiguous: int = 0) -> None:
    """Args:
    ambiguous: nodes that may stay because they depend on whether two unknown batches are equal: sums over broadcast
        axes, and what broadcasts the two.
    """
    optimizer.build(model.trainable_variables)
    specs = [tf.TensorSpec((batch, *a.shape[1:]), a.dtype) for a in (x, y)]
    wrapped = tf.compat.v1.wrap_function(_step(model, optimizer, loss), specs)
    imported = import_graph(wrapped.graph.as_graph_def(), types_of_graph(wrapped.graph))
    stay = [f"{n.name} ({n.op}): {n.reason}" for n in imported.nodes.values()
            if n.reason is not None and not any(s in n.reason for s in STAYS)]
    assert len(stay) <= ambiguous, stay
    variables = {id(v.value.handle): v.value for v in [*model.variables, *optimizer.variables]}
    before = {t.name: variables[id(c)].numpy() for t, c in
              zip(wrapped.graph.inputs[len(specs):], wrapped.captured_inputs, strict=True) if id(c) in variables}
    graph, inputs = _whole(imported, set(before))
    fetches = sorted({*inputs, *(key for key, _ in graph.outputs if key not in before)})
    fetched = [wrapped.graph.get_tensor_by_name(name) for name in fetches]
    writers = [wrapped.graph.get_operation_by_name(n.name) for n in imported.nodes.values() if n.writes]
    every = wrapped.prune(wrapped.graph.inputs[:len(specs)], [fetched, writers])
    actual = {name: v.numpy() for name, v in zip(fetches, every(tf.constant(x), tf.constant(y))[0], strict=True)}
    handles = {t.name: variables[id(c)] for t, c in
               zip(wrapped.graph.inputs[len(specs):], wrapped.captured_inputs, strict=True) if id(c) in variables}
    actual |= {name: v.numpy() for name, v in handles.items()}
    values = {name: actual[name] for name in inputs} | {f"before {h}": v for h, v in before.items()}
    got = interpret(bind(graph, {k: v.shape for k, v in values.items()}), values)
    for key, value in got.items():
        assert value.shape == actual[key].shape, key
        np.testing.assert_allclose(value, actual[key], 2e-4, 2e-4, err_msg=key)
    assert len(got) > 20


def _whole(imported: ImportedGraph, handles: set[str]) -> tuple[TensorGraph, set[str]]:
    """All that was legalised as one graph, with variables as inputs: a read is fed what TensorFlow read, an
    update the value before the step."""
    outputs: list[tuple[str, Node]] = []
    replace: dict[Node, Node] = {}
    inputs: set[str] = set()
    for node in imported.nodes.values():
        if node.reason is not None:
            continue
        outputs += [(f"{node.name}:{i}", v) for i, v in enumerate(node.outputs)
                    if v is not None and v.kind not in (OpKind.CONSTANT, OpKind.INPUT)]
        outputs += [(handle, v) for handle, v in node.writes.items() if handle in handles]
    graph = TensorGraph("step", outputs)
    for node in graph.inputs():
        if isinstance(node.attrs, InputAttrs):
            inputs.add(node.attrs.key)
            continue
        assert isinstance(node.attrs, VariableAttrs)
        owner = imported.owner.get(node)
        key = f"before {node.attrs.handle}" if owner is None else owner
        if owner is not None:
            inputs.add(owner)
        replace[node] = Builder(node.loc).input(key, node.type.dtype, node.type.shape)
    for node in graph.nodes():
        if node not in replace:
            replace[node] = make_node(node.kind, [replace[o] for o in node.operands], node.attrs, node.loc)
    return TensorGraph("step", [(key, replace[node]) for key, node in outputs]), inputs


def _sequential(shape: tuple[int, ...], *parts: Any) -> Any:
    return keras.Sequential([keras.Input(shape), *parts])


def _attention() -> Any:
    tokens = keras.Input((6,), dtype="int32")
    x = layers.Embedding(20, 16)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True))
    x = layers.Dense(16, activation="swish")(x)
    return keras.Model(tokens, layers.Dense(1, activation="sigmoid")(layers.GlobalMaxPooling1D()(x)))


@pytest.mark.parametrize("batch", [8, None])
@pytest.mark.parametrize("optimizer", [optimizers.Adam, optimizers.AdamW])
def test_perceptron(batch: int | None, optimizer: Any) -> None:
    model = _sequential((12,), layers.Dense(16, activation="gelu"), layers.LayerNormalization(), layers.Dropout(0.1),
                        layers.Dense(4))
    labels = np.arange(8, dtype=np.int32) % 4
    _verify(model, optimizer(clipnorm=1.0), losses.SparseCategoricalCrossentropy(from_logits=True), normal((8, 12)),
            labels, batch, ambiguous=0 if batch else 1)  # the random mask's own batch


@pytest.mark.parametrize("batch", [4, None])
def test_convolution_and_batch_norm(batch: int | None) -> None:
    model = _sequential((8, 8, 3), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(),
                        layers.MaxPooling2D(), layers.GlobalAveragePooling2D(), layers.Dense(3, activation="softmax"))
    labels = np.eye(3, dtype=np.float32)[[0, 1, 2, 1]]
    _verify(model, optimizers.SGD(0.1, momentum=0.9, nesterov=True), losses.CategoricalCrossentropy(),
            normal((4, 8, 8, 3)), labels, batch, ambiguous=0 if batch else 2)


@pytest.mark.parametrize("batch", [8, None])
def test_attention(batch: int | None) -> None:
    tokens = np.random.default_rng(0).integers(0, 20, (8, 6)).astype(np.int32)
    _verify(_attention(), optimizers.RMSprop(momentum=0.9), losses.BinaryCrossentropy(), tokens,
            (normal((8, 1)) > 0).astype(np.float32), batch, ambiguous=0 if batch else 18)


@pytest.mark.parametrize("cell", [layers.LSTM, layers.GRU])
def test_recurrent(cell: Any) -> None:
    """Unrolled: a loop's graph has values per iteration, which this test cannot fetch."""
    model = _sequential((3, 5), cell(8, unroll=True), layers.Dense(1))
    _verify(model, optimizers.Adagrad(), losses.MeanSquaredError(), normal((4, 3, 5)), normal((4, 1)), 4)


@pytest.mark.parametrize("optimizer", ["Adadelta", "Adamax", "Nadam", "Ftrl", "Lamb", "Lion"])
def test_optimizers(optimizer: str) -> None:
    model = _sequential((4,), layers.Dense(8, activation="selu"), layers.GroupNormalization(2), layers.Dense(3),
                        layers.PReLU(), layers.UnitNormalization())
    _verify(model, getattr(optimizers, optimizer)(), losses.Huber(), normal((8, 4)), normal((8, 3)), 8)


@pytest.mark.parametrize("loss", ["KLDivergence", "Poisson", "LogCosh", "Hinge", "CosineSimilarity",
                                  "BinaryFocalCrossentropy", "MeanSquaredLogarithmicError", "MeanAbsoluteError"])
def test_losses(loss: str) -> None:
    model = _sequential((4,), layers.Dense(8, activation="softplus"), layers.Dense(3, activation="sigmoid"))
    target = np.abs(normal((8, 3), seed=2))
    _verify(model, optimizers.SGD(), getattr(losses, loss)(), normal((8, 4)), target / target.max(), 8)


@pytest.mark.parametrize("activation", ["relu6", "elu", "leaky_relu", "softsign", "tanh", "silu", "gelu",
                                        "hard_sigmoid", "mish", "exponential", "log_softmax"])
def test_activations(activation: str) -> None:
    model = _sequential((4,), layers.Dense(8, activation=activation), layers.RMSNormalization(), layers.Dense(3))
    _verify(model, optimizers.SGD(), losses.MeanSquaredError(), normal((8, 4)), normal((8, 3)), 8)
