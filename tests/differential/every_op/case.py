"""One graph of one op: what goes in, and how close what comes out has to be to TensorFlow's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.framework import kernels, op_def_registry

from tf_stitch.frontend.tensorflow.dtypes import of_enum
from tf_stitch.ir.dtypes import DType

Array = NDArray[Any]


@dataclass(frozen=True)
class Fixed:
    """An input that is a constant of the graph (axes, shapes); the others are fed."""

    value: Array


@dataclass(frozen=True)
class Variable:
    """A resource input, by the value that the variable has before."""

    value: Array


@dataclass(frozen=True)
class Case:
    """A graph of one op, and of its gradient.

    Attributes:
        inputs: by the name of the op's argument; lists for arguments of several tensors.
        ulp: largest difference in units of the last place of the result.
        scale: what an error may be relative to besides the result itself, as to the operands of a sum that cancels. Of
            gradients, see GRADIENT_ULP.
        outputs: those that have a meaning; all by default.
        gradient: whether TensorFlow's gradient of the op, if it has one, is run too.
        device: what the nodes are taken to be placed on.
        unknown: what the graph does not know the sizes of: "", "fed" tensors, or "all", variables too.
    """

    op: str
    inputs: Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    ulp: float = 0
    scale: float = 0
    outputs: tuple[int, ...] | None = None
    gradient: bool = True
    device: str = ""
    unknown: str = ""

    @property
    def name(self) -> str:
        return f"{self.op} {self.label}".strip()


def kernel_types(op: str, attr: str) -> tuple[DType, ...]:
    """The IR's element types that `op` may have for its type attribute `attr`, and has a CPU kernel for. Not float8, of
    which TensorFlow casts some types alone, and whose graphs its optimizer fails on: test_float8.py has them."""
    definition = next(a for a in op_def_registry.get(op).attr if a.name == attr)
    allowed = definition.allowed_values.list.type or [d.as_datatype_enum for d in _all_types()]
    registered = [k for k in kernels.get_registered_kernels_for_op(op).kernel if k.device_type == "CPU"]

    def has_kernel(enum: int) -> bool:
        constraints = [[c for c in k.constraint if c.name == attr] for k in registered]
        return any(all(enum in c.allowed_values.list.type for c in found) for found in constraints)

    return tuple(sorted({dtype for enum in allowed if (dtype := of_enum(enum)) is not None
                         and not dtype.is_float8 and has_kernel(enum)},
                        key=list(DType).index))


def _all_types() -> list[Any]:
    return [tf.dtypes.as_dtype(d.value) for d in DType]


def ramp(shape: tuple[int, ...], dtype: DType, start: int = 0) -> Array:
    """Numbers that differ, some of them negative, exact in every type."""
    count = int(np.prod(shape, dtype=np.int64))
    values = (np.arange(start, start + count) * 7 % 23 - 11).reshape(shape)
    if dtype is DType.BOOL:
        return values % 3 == 0
    if dtype is DType.U64:
        return np.abs(values).astype(np.uint64) << np.uint64(58)
    return (values / 4 if dtype.is_float else values).astype(dtype.numpy)
