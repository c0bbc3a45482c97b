"""Draws calls of TensorFlow's ops: attributes, ranks, sizes that differ and small values."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework.op_def_pb2 import OpDef
from tensorflow.core.framework.types_pb2 import DataType

from tools.identities.joint_recipes import JOINT_RECIPES
from tools.identities.recipes import RECIPES

Arrays = dict[str, "NDArray[Any] | list[NDArray[Any]]"]
_TYPES = (tf.float32, tf.int32, tf.int64, tf.bool, tf.string, tf.float64, tf.complex64, tf.uint8, tf.qint32, tf.quint8,
          tf.qint8, tf.half)
_MANY = ("N", "num_split", "num_partitions")


@dataclass(frozen=True)
class Call:
    """What an op is called with.

    Attributes:
        attrs: all but the types and numbers that follow from the inputs.
        inputs: by argument; a list for an argument of several tensors.
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: Arrays

    def arrays(self) -> list[NDArray[Any]]:
        """All tensors in order."""
        found: list[NDArray[Any]] = []
        for value in self.inputs.values():
            found += value if isinstance(value, list) else [value]
        return found

    def apply(self, make: Callable[[NDArray[Any]], tf.Tensor], name: str | None = None) -> Any:
        """The op's results for tensors that `make` makes of arrays. Python's parameters for some inputs have names of
        their own, as `axis`."""
        function, given = getattr(tf.raw_ops, self.op), dict(self.attrs)
        given |= {key: [make(v) for v in value] if isinstance(value, list) else make(value)
                  for key, value in self.inputs.items()}
        wanted = [parameter for parameter in inspect.signature(function).parameters if parameter != "name"]
        others = iter([parameter for parameter in wanted if parameter not in given])
        return function(**{key if key in wanted else next(others): value for key, value in given.items()}, name=name)


WAITS = re.compile("Recv|Send|Collective|Nccl|TPU|Tpu|Xla|Barrier|Queue|Stage|Reader|Dataset|Iterator|File|Restore|"
                   "Save|Rpc|PyFunc|Abort|Timestamp|Debug|DTensor|CopyToMesh|Cudnn|^Print|Checkpoint|Write|Host|Mlir|"
                   "MapPeek|MapUnstage|Outfeed|SessionTensor|SessionHandle|^Batch$|^Unbatch")
"""Ops that wait for others, use files or devices, or end the process."""


class UndrawableError(Exception):
    """An op that no call is drawn for, with the reason."""


def why_not(op: OpDef) -> str | None:
    """Why an op is not called at all, or None."""
    if not op.output_arg:
        return "no result"
    if not op.input_arg:
        return "no input"
    if not hasattr(tf.raw_ops, op.name):
        return "internal"
    if any(arg.is_ref for arg in (*op.input_arg, *op.output_arg)):
        return "reference types"
    if any(arg.type in (DataType.DT_RESOURCE, DataType.DT_VARIANT) for arg in (*op.input_arg, *op.output_arg)):
        return "resources or variants"
    if WAITS.search(op.name):
        return "waits for others, or uses files or other devices"
    if any(attr.type in ("func", "list(func)") and not attr.HasField("default_value") for attr in op.attr):
        return "calls functions"
    return None


def draw(op: OpDef, rng: np.random.Generator) -> Call:
    """A call, which the op may refuse."""
    recipe = dict(RECIPES.get(op.name, {}))
    if op.name in JOINT_RECIPES:
        recipe |= {name: functools.partial(_given, value) for name, value in JOINT_RECIPES[op.name](rng).items()}
    attrs: dict[str, Any] = {}
    for attr in op.attr:
        values = recipe.get(attr.name)
        attrs[attr.name] = (_attribute(attr, rng) if values is None else rng.choice(values)
                            if isinstance(values, list) else values(rng))
    sizes = rng.permutation(np.array([1, 2, 3, 4, 5, 6]))[:int(rng.integers(1, 6))]
    rank = int(rng.integers(0, 5))
    inputs: Arrays = {}
    for arg in op.input_arg:
        types = _types_of(arg, attrs)
        shape = _shape(rank, sizes, rng)
        drawn = [_array(dtype, shape if rng.random() < 0.8 else _shape(rank, sizes, rng), rng) for dtype in types]
        if arg.name in recipe:
            drawn = [np.asarray(recipe[arg.name](rng), dtype.as_numpy_dtype) for dtype in types]
        inputs[arg.name] = drawn if arg.number_attr or arg.type_list_attr else drawn[0]
    derived = {name for arg in op.input_arg for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
    return Call(op.name, {name: value for name, value in attrs.items() if name not in derived}, inputs)


def _types_of(arg: OpDef.ArgDef, attrs: Mapping[str, Any]) -> list[tf.DType]:
    """Types of an argument's tensors."""
    if arg.type_list_attr:
        return list(attrs[arg.type_list_attr])
    one = attrs[arg.type_attr] if arg.type_attr else tf.as_dtype(arg.type)
    return [one] * (attrs[arg.number_attr] if arg.number_attr else 1)


def _given(value: Any, rng: np.random.Generator) -> Any:
    return value


def _attribute(attr: OpDef.AttrDef, rng: np.random.Generator) -> Any:
    allowed = attr.allowed_values.list
    if attr.type in ("type", "list(type)"):
        types = [t for t in _TYPES if not allowed.type or t.as_datatype_enum in allowed.type]
        if not types:
            raise UndrawableError("types that numpy lacks")
        if attr.HasField("default_value") and attr.type == "type" and rng.random() < 0.5:
            return tf.as_dtype(attr.default_value.type)
        one = types[int(rng.integers(0, min(len(types), 4)))]
        return one if attr.type == "type" else [one] * int(rng.integers(1, 4))
    if allowed.s:
        return allowed.s[int(rng.integers(0, len(allowed.s)))].decode()
    if attr.type == "bool":
        return bool(rng.integers(0, 2))
    if attr.name in _MANY:
        return int(max(attr.minimum, rng.integers(1, 4)))
    if attr.HasField("default_value") and rng.random() < 0.6:
        return _default(attr)
    if attr.type == "int":
        return int(max(attr.minimum if attr.has_minimum else 0, rng.integers(0, 4)))
    if attr.type == "list(int)":
        return _LISTS[int(rng.integers(0, len(_LISTS)))]
    if attr.type == "float":
        return float(rng.choice([0.25, 0.5, 1.0]))
    if attr.type == "list(float)":
        return [0.5, 1.0]
    if attr.type == "shape":
        return tf.TensorShape(None)
    if attr.HasField("default_value"):
        return _default(attr)
    if attr.type == "string":
        return _STRINGS.get(attr.name, "ab,bc->ac")
    raise UndrawableError(f"an attribute of type {attr.type}")


_STRINGS = {"data_format": "NHWC", "format": "png", "input_encoding": "UTF-8", "output_encoding": "UTF-8",
            "set_operation": "union"}
_LISTS: list[list[int]] = [[1, 1, 1, 1], [1, 2, 2, 1], [1, 2, 1, 1], [1], [0], [2, 3], [1, 1, 1, 1, 1],
                           [1, 2, 2, 2, 1]]


def _default(attr: OpDef.AttrDef) -> Any:
    value, kind = attr.default_value, attr.type
    if kind == "shape":
        return tf.TensorShape(None)
    if kind == "type":
        return tf.as_dtype(value.type)
    if kind.startswith("list("):
        items = getattr(value.list, {"int": "i", "float": "f", "string": "s", "bool": "b", "type": "type", "shape":
                                     "shape", "func": "func"}[kind[5:-1]])
        return [tf.as_dtype(t) for t in items] if kind == "list(type)" else list(items)
    if kind == "func":
        raise UndrawableError("calls functions")
    return getattr(value, {"int": "i", "float": "f", "string": "s", "bool": "b", "tensor": "tensor"}[kind])


def _shape(rank: int, sizes: NDArray[Any], rng: np.random.Generator) -> tuple[int, ...]:
    change = rng.random()
    if change < 0.25:
        rank = 0
    elif change < 0.5:
        rank = 1
    elif change < 0.6:
        rank = int(rng.integers(0, 5))
    return tuple(int(rng.choice(sizes)) for _ in range(rank))


def _array(dtype: tf.DType, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    if dtype == tf.string:
        return rng.choice(np.array([b"a", b"bc", b"d e"], object), shape)
    if dtype == tf.bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer or dtype.is_quantized:
        least = -1 if rng.random() < 0.3 and not dtype.is_unsigned else 0
        return rng.integers(least, int(rng.integers(1, 5)), shape).astype(dtype.as_numpy_dtype)
    return np.asarray(rng.random(shape) + 0.1).astype(dtype.as_numpy_dtype)
