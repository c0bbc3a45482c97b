"""Losses of what is wanted and what a network answers."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def cross_entropy(wanted: Any, logits: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(wanted, logits, from_logits=True)


def squared_error(wanted: Any, answer: Any) -> Any:
    return tf.square(tf.cast(wanted, answer.dtype) - answer)


def in_float32(answer: Any) -> Any:
    """An answer as losses take it."""
    return tf.cast(answer, tf.float32)
