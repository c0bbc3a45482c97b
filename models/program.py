"""What a model of the zoo is, and how it is trained and run: traced by tf.function, or in a session of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

Batch = Mapping[str, np.ndarray]
Tensors = Mapping[str, Any]
Outputs = dict[str, np.ndarray]


class Network(Protocol):
    """What a model file defines: two functions of a batch, over variables of its own."""

    trainable_variables: Sequence[Any]

    def train_loss(self, batch: Tensors) -> Any:
        """The mean loss of a batch, a float32 scalar."""

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """What the model answers."""


class Program(Protocol):
    """A model that is ready to run. Step i takes batch i, and the first one again after the last."""

    def train(self, step: int) -> float:
        """One training step; the loss before it."""

    def infer(self, step: int) -> Outputs:
        """One batch without training."""


@dataclass(frozen=True)
class Data:
    """Batches for training and for inference."""

    train: Sequence[Batch]
    infer: Sequence[Batch]


@dataclass(frozen=True)
class Options:
    """How a model is built.

    Attributes:
        config: a name in the model's `configs`.
        dtype: Keras' policy: float32, mixed_float16, mixed_bfloat16.
        style: tf2 (tf.function) or tf1 (graph and session).
        jit_compile: what tf.function is told about XLA.
    """

    config: str = "small"
    dtype: str = "float32"
    style: str = "tf2"
    jit_compile: bool | None = None
    seed: int = 1


@dataclass(frozen=True)
class Model:
    """A row of the zoo.

    Attributes:
        configs: sizes by name. `small` is for tests, `paper` is what the papers measured, `medium` keeps two cores
            busy for 10 to 200 ms a step, about the papers' share of it in memory-intensive ops.
        data: config, random generator -> batches.
        network: config -> the model.
        optimizer: config -> a new optimizer.
        modes: what the papers measured of it: train, infer.
        session: config, data -> the same in the style of TensorFlow 1, for the models that were written so.
        dtypes: the policies it is measured with.
    """

    name: str
    configs: Mapping[str, Any]
    data: Callable[[Any, np.random.Generator], Data]
    network: Callable[[Any], Network]
    optimizer: Callable[[Any], keras.optimizers.Optimizer]
    modes: tuple[str, ...]
    session: Callable[[Any, Data], Program] | None = None
    dtypes: tuple[str, ...] = ("float32",)

    @property
    def styles(self) -> tuple[str, ...]:
        return ("tf2",) if self.session is None else ("tf2", "tf1")

    def build(self, options: Options) -> Program:
        """The model with weights from `options.seed`.

        Raises:
            ValueError: this model does not come with such an option.
        """
        for value, allowed in ((options.config, self.configs), (options.style, self.styles),
                               (options.dtype, self.dtypes)):  # fmt: skip
            if value not in allowed:
                raise ValueError(f"{self.name} has no {value}, only {', '.join(allowed)}")
        config = self.configs[options.config]
        keras.utils.set_random_seed(options.seed)
        keras.config.set_dtype_policy(options.dtype)
        data = self.data(config, np.random.default_rng(options.seed))
        if options.style == "tf1":
            assert self.session is not None
            with tf.Graph().as_default():
                tf.compat.v1.set_random_seed(options.seed)
                return self.session(config, data)
        optimizer = self.optimizer(config)
        if options.dtype == "mixed_float16":
            # From Keras' own 2**15, gradients of float16 ops overflow in the first steps, which are then skipped.
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)
        return TracedProgram(self.network(config), optimizer, data, options.jit_compile)


def signature(batches: Sequence[Batch]) -> dict[str, tf.TensorSpec]:
    """Types of all batches; a size that is not the same in all of them is unknown to the graph."""
    specs = {}
    for name, first in batches[0].items():
        shapes = zip(*(batch[name].shape for batch in batches), strict=True)
        specs[name] = tf.TensorSpec([s[0] if len(set(s)) == 1 else None for s in shapes], first.dtype, name)
    return specs


class TracedProgram:
    """A network trained with a gradient tape, one tf.function for a step and one for inference."""

    def __init__(self, network: Network, optimizer: Any, data: Data, jit_compile: bool | None) -> None:
        self._network, self._optimizer, self._data = network, optimizer, data
        # An eager pass over one example makes the variables: tf.function would trace twice if it made them.
        network.train_loss({name: value[:1] for name, value in _tensors(data.train, 0).items()})
        optimizer.build(network.trainable_variables)
        self._step, self._infer = (
            tf.function(function, [signature(batches)], jit_compile=jit_compile, autograph=False)
            for function, batches in ((self._train_step, data.train), (network.infer, data.infer))
        )

    def _train_step(self, batch: Tensors) -> Any:
        with tf.GradientTape() as tape:
            loss = self._network.train_loss(batch)
            scaled = self._optimizer.scale_loss(loss)
        self._optimizer.apply(tape.gradient(scaled, self._network.trainable_variables))
        return loss

    def train(self, step: int) -> float:
        return float(self._step(_tensors(self._data.train, step)))

    def infer(self, step: int) -> Outputs:
        return {name: value.numpy() for name, value in self._infer(_tensors(self._data.infer, step)).items()}


class SessionProgram:
    """A graph and a session.

    Args:
        feeds: the placeholders of a batch.
        train: the op of a training step.
    """

    def __init__(self, feeds: Tensors, loss: Any, train: Any, outputs: dict[str, Any], data: Data) -> None:
        self._feeds, self._fetches, self._outputs, self._data = feeds, [loss, train], outputs, data
        self._session = tf.compat.v1.Session(graph=loss.graph)
        self._session.run(tf.compat.v1.global_variables_initializer())

    def train(self, step: int) -> float:
        return float(self._session.run(self._fetches, self._feed(self._data.train, step))[0])

    def infer(self, step: int) -> Outputs:
        outputs: Outputs = self._session.run(self._outputs, self._feed(self._data.infer, step))
        return outputs

    def _feed(self, batches: Sequence[Batch], step: int) -> dict[Any, np.ndarray]:
        batch = batches[step % len(batches)]
        return {self._feeds[name]: value for name, value in batch.items()}


def shared(batches: Sequence[Batch], *names: str) -> Data:
    """Training with these batches, and inference with the named parts of them."""
    return Data(batches, [{name: batch[name] for name in names} for batch in batches])


def placeholders(batches: Sequence[Batch]) -> dict[str, Any]:
    """A placeholder of unknown batch size for everything in a batch."""
    return {name: tf.compat.v1.placeholder(value.dtype, [None, *value.shape[1:]], name)
            for name, value in batches[0].items()}  # fmt: skip


def _tensors(batches: Sequence[Batch], step: int) -> dict[str, Any]:
    return {name: tf.constant(value) for name, value in batches[step % len(batches)].items()}
