"""What the classifiers of TensorFlow-Examples share: loss, a dense layer of TensorFlow 1, a session, digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Data, Program, SessionProgram, Tensors
from models.synthetic import labelled_images


class Classifier(keras.layers.Layer):
    """A network; what derives from it defines `logits`.

    Attributes:
        logits: batch -> [batch, classes].
    """

    logits: Callable[[Tensors], Any]

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"probabilities": tf.nn.softmax(self.logits(batch))}

    def train_loss(self, batch: Tensors) -> Any:
        return cross_entropy(self.logits(batch), batch["label"])


def cross_entropy(logits: Any, label: Any) -> Any:
    """The mean over the batch."""
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(label, logits.shape[-1]), logits))


def dense(x: Any, name: str, units: int, deviation: float = 1.0) -> Any:
    """x [batch, rows] times weights and plus a bias, both drawn with this deviation; one layer for each name."""
    with tf.compat.v1.variable_scope(name, reuse=tf.compat.v1.AUTO_REUSE):
        normal = tf.compat.v1.random_normal_initializer(stddev=deviation)
        weights = tf.compat.v1.get_variable("weights", [x.shape[-1], units], initializer=normal)
        return tf.matmul(x, weights) + tf.compat.v1.get_variable("bias", [units], initializer=normal)


def classifier_session(feeds: Tensors, logits: Any, optimizer: Any, data: Data) -> Program:
    """A session that trains these logits and gives their softmax."""
    loss = cross_entropy(logits, feeds["label"])
    return SessionProgram(feeds, loss, optimizer.minimize(loss), {"probabilities": tf.nn.softmax(logits)}, data)


def digits(config: Any, random: np.random.Generator) -> Data:
    """Four batches of `config.batch` images."""
    batches = labelled_images(random, config.batch, 4)
    return Data(batches, batches)
