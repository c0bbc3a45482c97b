"""Measured times of matmuls: a grid over their sizes, and what lies between its points."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tf_stitch.errors import ProfileError

Sizes = tuple[int, int, int, int]
"""batch, m, k, n: as many matmuls [m, k] x [k, n]."""


@dataclass(frozen=True)
class MatmulTimes:
    """Microseconds of matmuls of one element type by the device's library.

    Attributes:
        axes: measured batches, m, k and n, ascending.
        us: one for each combination, the last axis fastest.
    """

    axes: tuple[tuple[int, ...], ...]
    us: tuple[float, ...]

    @property
    def most_rows(self) -> int:
        """The most rows of a measured matmul."""
        return self.axes[1][-1]

    @property
    def most_terms(self) -> int:
        """The most terms of a measured matmul."""
        return self.axes[2][-1]

    def at(self, sizes: Sizes) -> float:
        """Microseconds, by straight lines over the logarithms of sizes and times. Sizes below the grid take as long as
        its first; beyond its last, time grows with the size."""
        beyond = 1.0
        places: list[list[tuple[int, float]]] = []  # of each axis: index and weight of the points beside
        for axis, size in zip(self.axes, sizes, strict=True):
            beyond *= max(size / axis[-1], 1.0)
            places.append(_beside(axis, min(max(size, axis[0]), axis[-1])))
        logarithm = 0.0
        for corner in itertools.product(*places):
            index = 0
            for axis, (at, _) in zip(self.axes, corner, strict=True):
                index = index * len(axis) + at
            logarithm += math.prod(weight for _, weight in corner) * math.log(self.us[index])
        return beyond * math.exp(logarithm)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"axes": [list(axis) for axis in self.axes], "us": list(self.us)}


def _beside(axis: Sequence[int], size: int) -> list[tuple[int, float]]:
    right = bisect.bisect_left(axis, size)
    if axis[right] == size:
        return [(right, 1.0)]
    part = math.log(size / axis[right - 1]) / math.log(axis[right] / axis[right - 1])
    return [(right - 1, 1.0 - part), (right, part)]


def parse_matmul_times(document: Any) -> MatmulTimes:
    """The inverse of `document`.

    Raises:
        ProfileError: not such a document, or its numbers make no sense.
    """
    try:
        axes = tuple(tuple(int(size) for size in axis) for axis in document["axes"])
        us = tuple(float(time) for time in document["us"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(f"matmuls of a device profile: {error!r}") from None
    ascending = all(a < b for axis in axes for a, b in itertools.pairwise((0, *axis)))
    if len(axes) != len(("batch", "m", "k", "n")) or not all(axes) or not ascending:
        raise ProfileError(f"matmuls of a device profile have the sizes {axes}")
    if len(us) != math.prod(map(len, axes)) or not all(math.isfinite(time) and time > 0 for time in us):
        raise ProfileError("matmuls of a device profile do not have a positive time for each combination of sizes")
    return MatmulTimes(axes, us)


def parse_matmuls(document: Any) -> tuple[tuple[str, MatmulTimes], ...]:
    """Element type -> times, in the order of names.

    Raises:
        ProfileError: as above.
    """
    if not isinstance(document, Mapping):
        raise ProfileError(f"matmuls of a device profile are {document!r}")
    return tuple((dtype, parse_matmul_times(times)) for dtype, times in sorted(document.items()))
