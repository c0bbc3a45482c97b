"""Losses of what is wanted and what a network answers."""

from __future__ import annotations

from typing import Any

import keras


def cross_entropy(wanted: Any, logits: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(wanted, logits, from_logits=True)
