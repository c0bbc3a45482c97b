"""A Keras model with what a step needs: an optimizer, a loss, batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np


def with_loss_scaling(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """The optimizer, which scales losses where Keras' `compile` would have it so."""
    half = keras.config.dtype_policy().name == "mixed_float16"
    return keras.optimizers.LossScaleOptimizer(optimizer) if half else optimizer


def prepared(optimizer: keras.optimizers.Optimizer, variables: list[Any]) -> keras.optimizers.Optimizer:
    """The optimizer, with what it keeps of each variable and the scaling of losses that the policy wants."""
    optimizer = with_loss_scaling(optimizer)
    optimizer.build(variables)
    return optimizer


@dataclass(frozen=True)
class Network:
    """A network with its optimizer.

    Attributes:
        loss: of what it is asked for and what it answers.
        draw: what is wanted, and what is given, of so many random examples.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    loss: Callable[[Any, Any], Any]
    draw: Callable[[np.random.Generator, int], tuple[Any, ...]]

    def train(self, wanted: Any, *given: Any) -> Any:
        """One step; the loss before it."""
        loss, gradients = self._gradients(wanted, given)
        self.optimizer.apply(gradients, self.model.trainable_variables)
        return loss

    def backward(self, wanted: Any, *given: Any) -> list[Any]:
        """The loss, and its gradients by all weights, which stay as they are."""
        loss, gradients = self._gradients(wanted, given)
        return [loss, *gradients]

    def infer(self, *given: Any) -> Any:
        return self._call(given, False)

    def batch(self, size: int, seed: int = 0) -> tuple[Any, ...]:
        """What is wanted, and what is given, of so many random examples."""
        return self.draw(np.random.default_rng(seed), size)

    def _gradients(self, wanted: Any, given: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        import tensorflow as tf  # not where a network runs under JAX

        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.loss(wanted, tf.cast(self._call(given, True), tf.float32)))
            scaled = self.optimizer.scale_loss(loss)
        return loss, tape.gradient(scaled, self.model.trainable_variables)

    def _call(self, given: tuple[Any, ...], training: bool) -> Any:
        return self.model(list(given) if len(given) > 1 else given[0], training=training)
