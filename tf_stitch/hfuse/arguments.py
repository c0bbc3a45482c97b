"""What kernels are profiled with: arguments as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import ConfigError
from tf_stitch.hfuse.source import Cursor, Kernel

_NUMBERS: dict[str, type[np.generic]] = {
    "BOOL": np.bool_, "CHAR_S": np.int8, "SCHAR": np.int8, "CHAR_U": np.uint8, "UCHAR": np.uint8, "SHORT": np.int16,
    "USHORT": np.uint16, "INT": np.int32, "UINT": np.uint32, "LONG": np.int64, "ULONG": np.uint64, "LONGLONG": np.int64,
    "ULONGLONG": np.uint64, "FLOAT": np.float32, "DOUBLE": np.float64}
"""By libclang's kinds of types."""
_TYPES = {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"}
SEED = 0


@dataclass(frozen=True)
class Array:
    """Random numbers from `low` on and below `high`; whole ones of a type of whole numbers."""

    dtype: str
    count: int
    low: float
    high: float

    def make(self, seed: int) -> NDArray[Any]:
        """The numbers."""
        random = np.random.default_rng(seed)
        if "int" in self.dtype:
            return random.integers(int(self.low), max(int(self.high), int(self.low) + 1), self.count).astype(self.dtype)
        return random.uniform(self.low, self.high, self.count).astype(self.dtype)


Argument = Array | np.generic


def parse_arguments(text: str, kernel: Kernel) -> list[Argument]:
    """Arguments of a kernel: numbers, and arrays as `float32[1000]` or `int32[1000]=0:50`, parted by spaces. Arrays of
    whole numbers are zero, others between 0 and 1, unless a range is given.

    Raises:
        ConfigError: they are not what the kernel takes.
    """
    words = text.split()
    parameters = kernel.parameters
    if len(words) != len(parameters):
        raise ConfigError(f"{kernel.name} has {len(parameters)} parameters, and {len(words)} arguments are given")
    return [_argument(word, parameter.spelling, parameter.type.get_canonical(), kernel)
            for word, parameter in zip(words, parameters, strict=True)]


def _argument(word: str, name: str, of: Cursor, kernel: Kernel) -> Argument:
    kind = of.kind.name
    if kind == "POINTER" or (kind in ("UNEXPOSED", "INVALID") and "[" in word):
        return _array(word, name, kernel)
    number = _NUMBERS.get(kind)
    try:
        if number is not None:
            value: np.generic = number(float(word) if number in (np.float32, np.float64) else int(word))
            return value
        if kind == "UNEXPOSED":  # of a template's type
            return np.int32(int(word))
    except (ValueError, OverflowError):
        raise ConfigError(f"{word!r} is no {number and number.__name__} for {name} of {kernel.name}") from None
    raise ConfigError(f"{name} of {kernel.name} is no number and no pointer: it cannot be profiled")


def _array(word: str, name: str, kernel: Kernel) -> Array:
    head, equals, limits = word.partition("=")
    dtype, bracket, count = head.partition("[")
    if dtype not in _TYPES or not bracket or not count.endswith("]") or not count[:-1].isdecimal():
        raise ConfigError(f"{word!r} is no array for {name} of {kernel.name}: say float32[1000] or int32[1000]=0:50")
    low, colon, high = limits.partition(":")
    try:
        if equals:
            return Array(dtype, int(count[:-1]), float(low), float(high if colon else low))
    except ValueError:
        raise ConfigError(f"{limits!r} is no range of numbers, as 0:50") from None
    return Array(dtype, int(count[:-1]), 0, 0 if "int" in dtype else 1)
