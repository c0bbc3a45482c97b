"""What a tensor of an unrolled loop is: a tensor of the new graph, a number that is known, or a list of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import UnsupportedError

Number: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Wire:
    """A tensor.

    Attributes:
        tensor: its name.
        number: its value, if it is known: integers and truth values.
    """

    tensor: str
    number: Number | None = None


@dataclass(frozen=True)
class TensorList:
    """A list of tensors as loops build them.

    Attributes:
        elements: None for one that nobody has set: zeros.
        shape: of an element, as the list was told.
        frames: loops that it went through.
    """

    elements: tuple[Wire | None, ...]
    shape: Wire
    frames: frozenset[str] = frozenset()


Value: TypeAlias = Wire | TensorList


def scalar(value: Value) -> int | None:
    """A known number, None for all else."""
    if not isinstance(value, Wire) or value.number is None or value.number.size != 1:
        return None
    return int(value.number.reshape(()))


def with_element(values: TensorList, index: int, element: Wire) -> TensorList:
    """The list with another element.

    Raises:
        UnsupportedError: it has no such element.
    """
    if not 0 <= index < len(values.elements):
        raise UnsupportedError(f"element {index} of a list of {len(values.elements)}")
    return replace(values, elements=(*values.elements[:index], element, *values.elements[index + 1:]))


_FOLD: Mapping[str, Callable[..., Any]] = {
    "Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "Minimum": np.minimum,
    "Maximum": np.maximum, "Neg": np.negative, "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater,
    "GreaterEqual": np.greater_equal, "Equal": np.equal, "NotEqual": np.not_equal, "LogicalNot": np.logical_not,
    "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or,
}
"""What counters and conditions are made of. Sums wrap around in NumPy as in TensorFlow."""

def fold(op: str, operands: Sequence[Value]) -> Number | None:
    """The value of a node if it is known."""
    numbers = [v.number if isinstance(v, Wire) else None for v in operands]
    if op not in _FOLD or any(n is None for n in numbers):
        return None
    return np.asarray(_FOLD[op](*numbers))
