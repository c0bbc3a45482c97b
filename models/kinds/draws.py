"""Random arrays that batches are made of."""

from __future__ import annotations

from typing import Any

import numpy as np


def normal(random: np.random.Generator, *shape: int) -> Any:
    return random.standard_normal(shape).astype(np.float32)


def uniform(random: np.random.Generator, *shape: int) -> Any:
    """In [0, 1)."""
    return random.random(shape).astype(np.float32)


def integers(random: np.random.Generator, limit: int, *shape: int, first: int = 0) -> Any:
    """From the first on, below the limit: int32."""
    return random.integers(first, limit, shape).astype(np.int32)
