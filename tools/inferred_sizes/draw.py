"""Draws attributes and arguments of an op at random, and small: most draws are refused, some run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework.op_def_pb2 import OpDef

TYPES = (tf.float32, tf.int32, tf.int64, tf.bool, tf.complex64, tf.float64, tf.int8, tf.uint8, tf.string)
"""By preference."""
_INTEGERS = (tf.int32, tf.int64)
FEW = 16
"""Elements up to which an integer argument may be sizes, axes or paddings."""


@dataclass(frozen=True)
class Call:
    """Attributes:
        attrs: by name, those that arguments do not tell among them.
        arguments: by name; a list for an argument of several tensors.
    """

    attrs: dict[str, Any]
    arguments: dict[str, Any]


class Unsuitable(Exception):
    """No arguments can be drawn for an op; the message says why."""


def draw(op: OpDef, rng: random.Random) -> Call:
    """
    Raises:
        Unsuitable: no draw of this op can run.
    """
    attrs = {attr.name: _attr(op, attr, rng) for attr in op.attr}
    rank, sizes = rng.randint(1, 5), [rng.randint(1, 7) for _ in range(3)]
    first: list[Sequence[int]] = []
    arguments: dict[str, Any] = {}
    for arg in op.input_arg:
        if arg.is_ref:
            raise Unsuitable("reads a reference")
        types = _types(arg, attrs)
        values = [_value(dtype, _shape(rank, sizes, first, rng), rng) for dtype in types]
        arguments[arg.name] = values if arg.number_attr or arg.type_list_attr else values[0]
    derived = {arg.type_attr for arg in op.input_arg} | {arg.number_attr for arg in op.input_arg} \
        | {arg.type_list_attr for arg in op.input_arg}
    return Call({name: value for name, value in attrs.items() if name not in derived and value is not None}, arguments)


def _types(arg: OpDef.ArgDef, attrs: dict[str, Any]) -> list[tf.DType]:
    if arg.type_list_attr:
        return list(attrs[arg.type_list_attr])
    dtype = tf.as_dtype(arg.type) if arg.type else attrs[arg.type_attr]
    if dtype in (tf.resource, tf.variant):
        raise Unsuitable(f"reads a {dtype.name}")
    return [dtype] * (attrs[arg.number_attr] if arg.number_attr else 1)


def _attr(op: OpDef, attr: OpDef.AttrDef, rng: random.Random) -> Any:
    """A value; None for the default."""
    allowed = attr.allowed_values.list
    has_default = attr.HasField("default_value")
    if attr.type == "type":
        known = [tf.as_dtype(t) for t in allowed.type] or list(TYPES)
        fits = [t for t in TYPES if t in known]
        if not fits:
            raise Unsuitable("of types that are not drawn")
        return fits[0] if rng.random() < 0.6 else rng.choice(fits)
    if attr.type == "list(type)":
        return [rng.choice(TYPES[:4]) for _ in range(rng.randint(1, 3))]
    if attr.type == "func" or attr.type == "list(func)":
        raise Unsuitable("calls a function")
    if attr.type == "int":
        is_count = any(arg.number_attr == attr.name for arg in op.input_arg)
        if has_default and not is_count and rng.random() < 0.5:
            return None
        return rng.randint(max(1, attr.minimum if attr.has_minimum else 1), 3)
    if has_default and rng.random() < 0.6:
        return None
    if attr.type == "bool":
        return rng.random() < 0.5
    if attr.type == "float":
        return rng.choice([0.5, 1.0, 2.0])
    if attr.type == "string":
        return rng.choice(list(allowed.s)).decode() if allowed.s else (None if has_default else "")
    if attr.type == "list(int)":
        inner = [rng.randint(1, 3) for _ in range(rng.choice([2, 3]))]
        return rng.choice([[1, *inner, 1], inner, [rng.randint(0, 2)]])
    if attr.type == "list(float)":
        return [0.5] * rng.randint(1, 3)
    if has_default:
        return None
    raise Unsuitable(f"has a {attr.type}")


def _shape(rank: int, sizes: Sequence[int], first: list[Sequence[int]], rng: random.Random) -> Sequence[int]:
    """Often like the first argument's, with a size exchanged or an axis less."""
    if first and rng.random() < 0.75:
        like = list(first[0])
        if like and rng.random() < 0.4:
            like[rng.randrange(len(like))] = rng.choice([1, *sizes])
        if like and rng.random() < 0.25:
            del like[rng.randrange(len(like))]
        return like
    own = rank if rng.random() < 0.6 else rng.choice([0, 1, 1, 2, 3, 4])
    shape = [rng.choice(sizes) for _ in range(own)]
    first.append(shape)
    return shape


def _value(dtype: tf.DType, shape: Sequence[int], rng: random.Random) -> NDArray[Any]:
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    if dtype in _INTEGERS and rng.random() < 0.7:  # sizes, axes, paddings
        shape = rng.choice([(), (rng.randint(1, 4),), (rng.randint(1, 4),), (rng.randint(1, 4), 2)])
        return numbers.integers(rng.choice([-1, 0, 0, 1]), rng.choice([2, 3, 4]), shape).astype(dtype.as_numpy_dtype)
    if dtype == tf.string:
        return np.array(numbers.integers(0, 10, shape).astype(str), object)
    if dtype == tf.bool:
        return np.asarray(numbers.random(shape) < 0.5)
    if dtype.is_integer:
        return np.asarray(numbers.integers(0, 3, shape)).astype(dtype.as_numpy_dtype)
    return np.asarray(numbers.random(shape)).astype(dtype.as_numpy_dtype)
