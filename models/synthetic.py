"""Random data with the shapes of the real thing."""

from __future__ import annotations

import numpy as np

from models.program import Batch


def images(random: np.random.Generator, batch: int, pixels: int = 784) -> np.ndarray:
    """Flat images in [0, 1], mostly black as handwritten digits are: float32 [batch, pixels]."""
    return np.clip(random.standard_normal((batch, pixels)) * 0.5 - 0.1, 0, 1).astype(np.float32)


def labelled_images(random: np.random.Generator, batch: int, count: int) -> list[Batch]:
    """`count` batches of images and classes of ten."""
    return [{"image": images(random, batch), "label": random.integers(0, 10, batch, np.int32)} for _ in range(count)]


def words(random: np.random.Generator, vocabulary: int, shape: tuple[int, ...], first: int = 0) -> np.ndarray:
    """Words first ... vocabulary - 1, the frequent ones first as in text (Zipf's law): int32."""
    ranks = np.exp(random.random(shape) * np.log(vocabulary - first)).astype(np.int32) - 1
    return (ranks + first).astype(np.int32)


def lengths(random: np.random.Generator, batch: int, longest: int) -> np.ndarray:
    """Lengths from half of `longest` to all of it, which occurs: int32 [batch]."""
    some = random.integers((longest + 1) // 2, longest + 1, batch, np.int32)
    some[0] = longest
    return some


def padded(values: np.ndarray, length: np.ndarray) -> np.ndarray:
    """values [batch, time, ...] with zeros from each row's length on."""
    alive = np.arange(values.shape[1]) < length[:, None]
    return np.where(alive.reshape(alive.shape + (1,) * (values.ndim - 2)), values, 0).astype(values.dtype)
