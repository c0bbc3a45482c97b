"""What the calls of `ops` take beside tensors: axes, shapes, indices; drawn for the values at hand."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

DTYPES = ("tf.float32",) * 6 + ("tf.float16", "tf.bfloat16", "tf.float64", "tf.int32", "tf.int64", "tf.int8",
                                "tf.uint8", "tf.bool")  # fmt: skip


class Arguments:
    """Texts for one call.

    Args:
        names, values: of the operands; values are eager tensors.
    """

    def __init__(self, rng: random.Random, names: Sequence[str], values: Sequence[Any]) -> None:
        self._rng, self._name, self._dtype = rng, names[0], values[0].dtype
        self._shape: list[int] = values[0].shape.as_list()

    def __getitem__(self, key: str) -> str:
        """The text for what stands in braces; raises IndexError or ValueError where there is none."""
        return str(getattr(self, key)())

    def _one(self, *options: Any) -> Any:
        return self._rng.choice(options)

    def flag(self) -> bool:
        return self._one(True, False)

    def number(self) -> float:
        return self._one(0.5, -1.5, 2.0, 0.1, 0.3, -0.7, 3.0)

    def small(self) -> float:
        return self._one(0.0, 1.0, 0.25, -1.0)

    def count(self) -> int:
        return self._rng.randint(0, 3)

    def dtype(self) -> str:
        return self._one(*DTYPES)

    def float(self) -> str:
        return self._one("tf.float32", "tf.float16", "tf.float64")

    def index(self) -> str:
        return self._one("tf.int32", "tf.int64")

    def order(self) -> str:
        return self._one("'ASCENDING'", "'DESCENDING'")

    def mirror(self) -> str:
        return self._one("'REFLECT'", "'SYMMETRIC'")

    def rate0(self) -> str:
        return f"tf.constant({self._one(0.1, 0.01, 0.9)}, {self._name}.dtype)"

    def axis(self) -> int:
        rank = len(self._shape)
        return self._rng.randrange(-rank, rank) if rank else 0

    def axes(self) -> Any:
        rank = len(self._shape)
        return self._one(None, [0], [-1], sorted(self._rng.sample(range(rank), self._rng.randint(0, rank))))

    def place(self) -> int:
        return self._rng.randint(0, len(self._shape))

    def last(self) -> str:
        return self._one(str(self._shape[-1]), f"tf.shape({self._name})[-1]")

    def image(self) -> str:
        return f"tf.reshape({self._name}, [1, {self._one(1, 2, 4)}, -1, 1])"

    def k(self) -> int:
        return self._rng.randint(1, max(1, self._shape[-1]))

    def shape(self) -> str:
        left, dims = math.prod(self._shape), list[int]()
        while left > 1 and len(dims) < 3:
            dims.append(self._one(*(d for d in range(1, min(left, 512) + 1) if left % d == 0)))
            left //= dims[-1]
        dims.append(left)
        if self._rng.random() < 0.5:
            dims[self._rng.randrange(len(dims))] = -1
        return str(dims)

    def perm(self) -> list[int]:
        return self._rng.sample(range(len(self._shape)), len(self._shape))

    def slices(self) -> str:
        options = ("...", "None", ":", "::2", "::-1", "1:", ":-1", "0:1", "0", "-1", "1:3", "-2:", "::-2")
        parts = [self._one(*options[2:]) for _ in self._shape[:self._rng.randint(1, 3)]]
        if self._rng.random() < 0.3:
            parts.insert(self._rng.randint(0, len(parts)), self._one("...", "None"))
        return ", ".join(parts)

    def first(self) -> str:
        return ", ".join("0" for _ in self._shape) or "()"

    def begin(self) -> list[int]:
        return [self._rng.randint(0, max(0, d - 1)) for d in self._shape]

    def sizes(self) -> list[int]:
        return [self._one(-1, 1, max(1, d // 2)) for d in self._shape]

    def pads(self) -> list[list[int]]:
        return [[self._rng.randint(0, 2), self._rng.randint(0, 2)] for _ in self._shape]

    def parts(self) -> Any:
        return self._one(1, 2, 3)

    def repeats(self) -> list[int]:
        return [self._one(1, 1, 2, 3) for _ in self._shape]

    def rows(self) -> list[int]:
        return [self._rng.randrange(max(1, min(self._shape, default=1))) for _ in range(self._rng.randint(1, 4))]

    def indices(self) -> list[int]:
        return [self._rng.randrange(max(1, d)) for d in self._shape]

    def segments(self) -> str:
        return f"tf.range(tf.shape({self._name})[0]) % 3"

    def lengths(self) -> str:
        return f"tf.ones([tf.shape({self._name})[0]], tf.int32) * {self._rng.randint(1, max(1, self._shape[1]))}"
