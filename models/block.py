"""A Keras layer made of layers."""

from __future__ import annotations

from typing import Any

import keras


class Block(keras.layers.Layer):
    """Its layers build themselves when they are first called.

    Without a `build`, Keras runs a layer symbolically to build it, and each layer in it again for itself.
    """

    def __init__(self) -> None:
        super().__init__(autocast=False)  # its layers cast what they are given; masks stay float32

    def build(self, shape: Any) -> None:
        """Nothing of its own."""
