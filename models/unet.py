"""A U-Net as diffusion models have it (Ho et al., 2020): residual blocks with group norms and an embedded time,
attention where images are smallest, and what comes down is concatenated on the way up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

GROUPS = 8


def unet(size: int, widths: Sequence[int], heads: int = 4, channels: int = 3) -> keras.Model:
    """Images [batch, size, size, channels] and times [batch] -> noise, as the images.

    Args:
        widths: channels of each resolution, a multiple of 8; each halves the one before.
    """
    images = keras.Input((size, size, channels))
    times = keras.Input(())
    time = layers.Dense(4 * widths[0], "swish")(_waves(times, widths[0]))
    x = layers.Conv2D(widths[0], 3, padding="same")(images)
    skipped = [x]
    for level, width in enumerate(widths):
        x = _block(x, time, width)
        skipped.append(x)
        if level < len(widths) - 1:
            x = layers.Conv2D(width, 3, 2, padding="same")(x)
            skipped.append(x)
    x = _block(_attention(_block(x, time, widths[-1]), heads), time, widths[-1])
    for level, width in reversed(list(enumerate(widths))):
        x = _block(layers.Concatenate()([x, skipped.pop()]), time, width)
        x = _block(layers.Concatenate()([x, skipped.pop()]), time, width)
        if level > 0:
            x = layers.Conv2D(width, 3, padding="same")(layers.UpSampling2D()(x))
    x = keras.activations.swish(layers.GroupNormalization(GROUPS)(x))
    noise = layers.Conv2D(channels, 3, padding="same", dtype="float32")(x)
    return keras.Model([images, times], noise)


def _waves(times: Any, width: int) -> Any:
    """Sines and cosines of a time, by frequencies from 1 to 1e-4."""
    frequencies = keras.ops.exp(keras.ops.arange(width // 2, dtype="float32") * (-9.21 / (width // 2)))
    angles = times[:, None] * frequencies
    return keras.ops.concatenate([keras.ops.sin(angles), keras.ops.cos(angles)], -1)


def _block(x: Any, time: Any, width: int) -> Any:
    y = keras.activations.swish(layers.GroupNormalization(GROUPS)(x))
    y = layers.Conv2D(width, 3, padding="same")(y) + layers.Dense(width)(time)[:, None, None]
    y = keras.activations.swish(layers.GroupNormalization(GROUPS)(y))
    y = layers.Conv2D(width, 3, padding="same")(y)
    return y + (x if x.shape[-1] == width else layers.Conv2D(width, 1)(x))


def _attention(x: Any, heads: int) -> Any:
    """Of all places of an image to each other."""
    _, height, width, channels = x.shape
    places = layers.Reshape((height * width, channels))(layers.GroupNormalization(GROUPS)(x))
    seen = layers.MultiHeadAttention(heads, channels // heads)(places, places)
    return x + layers.Reshape((height, width, channels))(seen)
