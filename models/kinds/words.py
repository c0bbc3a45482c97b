"""Words as vectors, and layers that give each of them another."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

WORDS = 1000


def embedded(length: int, width: int) -> tuple[Any, Any]:
    """A text that is given, and its words' vectors."""
    text = keras.Input((length,), dtype="int32")
    return text, layers.Embedding(WORDS, width)(text)


class OfEachWord(layers.Layer):
    """A layer whose answer has the shape of what it is given."""

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(x.shape, self.compute_dtype)
