"""What a legalisation may ask about the TensorFlow node at hand, and about its inputs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.attributes import NodeAttrs
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Dim, Shape, Symbol

# An integer tensor known in part: elements are int, Symbol, or None where unknown.
StaticValue: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class TensorSpec:
    """Type of a TensorFlow tensor. dtype None: not in the IR; shape None: rank unknown."""

    dtype: DType | None
    shape: Shape | None


@dataclass(frozen=True)
class Operand:
    """A data input of the node.

    Attributes:
        tensor: canonical name, "node:index".
        node: its IR value, None if the IR has no type for it.
        static: what is known of its elements, None if nothing.
        handle: for a resource, the canonical name of the tensor that made the handle.
    """

    tensor: str
    node: Node | None
    spec: TensorSpec
    static: StaticValue | None
    handle: str


@dataclass(frozen=True)
class Check:
    """What has to be true, or TensorFlow's op raises, as a kernel on a GPU cannot.

    Attributes:
        tensor: the data input that it is about, "node:index".
        inside: a scalar of bool.
    """

    tensor: str
    inside: Node


def is_known(value: StaticValue | None) -> bool:
    """True if every element is a number or a symbol."""
    return value is not None and all(e is not None for e in value.flat)


def is_fixed(value: StaticValue | None) -> bool:
    """True if every element is a number."""
    return value is not None and all(isinstance(e, int) for e in value.flat)


@dataclass
class NodeContext:
    """One TensorFlow node while it is legalised. `b` builds IR that carries the node's location. What is noted of it
    (reads, writes, private, ignored, checks): see ImportedNode."""

    name: str
    op: str
    on_gpu: bool
    attrs: NodeAttrs
    operands: tuple[Operand, ...]
    output_specs: tuple[TensorSpec, ...]
    b: Builder
    variable_shape: Callable[[str], Shape | None]
    reads: list[str] = field(default_factory=list)
    writes: dict[str, Node] = field(default_factory=dict)
    private: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.operands)

    def value(self, index: int) -> Node:
        """The IR value of an input; what shape arithmetic gave becomes constants and extents.

        Raises:
            UnsupportedError: the input's dtype is not in the IR or its rank is unknown.
        """
        operand = self.operands[index]
        if operand.node is None:
            raise UnsupportedError(f"input {operand.tensor} has a dtype or rank that the IR lacks")
        is_opaque = operand.node.kind is OpKind.INPUT
        if operand.static is not None and is_opaque and is_known(operand.static):
            return self._materialize(operand.static, operand.node.type.dtype)
        return operand.node

    def values(self, start: int = 0, stop: int | None = None) -> list[Node]:
        return [self.value(i) for i in range(len(self))[start:stop]]

    def pair(self) -> tuple[Node, Node]:
        """Inputs 0 and 1 of an op that takes equal shapes only: the first gets the shape of the second, where unknown
        sizes go by two names. Shapes that do differ are found when they are bound, and are TensorFlow's error."""
        first, second = self.value(0), self.value(1)
        return self.fitted(first, second.type.shape), second

    def fitted(self, x: Node, shape: Shape) -> Node:
        """x, which has to have this shape, by whatever names of sizes: that is checked when sizes are bound.

        Raises:
            UnsupportedError: it has another.
        """
        known = [(a, b) for a, b in zip(x.type.shape, shape, strict=False) if isinstance(a, int) and isinstance(b, int)]
        if x.type.rank != len(shape) or any(a != b for a, b in known):
            raise UnsupportedError(f"{x.type} where {self.op} needs the shape {shape}")
        return self.b.reshape(x, shape)

    def static(self, index: int) -> StaticValue | None:
        return self.operands[index].static

    def shape_of(self, index: int) -> Shape | None:
        """Shape of an input, whatever its dtype; None if the rank is unknown."""
        operand = self.operands[index]
        return operand.spec.shape if operand.node is None else operand.node.type.shape

    def ints(self, index: int, what: str) -> tuple[int, ...]:
        """Elements of an integer input (any rank, C order) that must be known now.

        Raises:
            UnsupportedError: "`what` is decided at run time".
        """
        value = self.static(index)
        if value is None or not is_fixed(value):
            raise UnsupportedError(f"{what} is decided at run time")
        return tuple(int(e) for e in value.flat)

    def scalar(self, index: int, what: str) -> int:
        values = self.ints(index, what)
        if len(values) != 1:
            raise UnsupportedError(f"{what} is not a scalar")
        return values[0]

    def axis(self, index: int, rank: int) -> int:
        """A scalar integer input as one of `rank` axes, counted from the first. UnsupportedError if it is unknown, or
        if there is no such axis, which is for TensorFlow's kernel to say."""
        return self.axes(self.scalar(index, "the axis"), rank=rank)[0]

    def axes(self, *numbers: int, rank: int) -> list[int]:
        """As axis, for numbers that are known."""
        for axis in numbers:
            if not -rank <= axis < rank:
                raise UnsupportedError(f"axis {axis} of {rank}: an error at run time")
        return [axis % rank for axis in numbers]

    def dim(self, index: int, what: str) -> Dim:
        """A scalar integer input as a dimension; UnsupportedError if unknown."""
        dims = self.dims(index, what)
        if len(dims) != 1:
            raise UnsupportedError(f"{what} is not a scalar")
        return dims[0]

    def dims(self, index: int, what: str) -> Shape:
        """Elements of an integer input, numbers or symbols; UnsupportedError if one is unknown."""
        value = self.static(index)
        if value is None or not is_known(value):
            raise UnsupportedError(f"{what} is decided at run time")
        return tuple(value.flat)

    def array(self, index: int, what: str) -> NDArray[Any]:
        """A constant input as an array; UnsupportedError if it is not a constant."""
        node = self.value(index)
        if node.kind is OpKind.BROADCAST and isinstance(node.operands[0].attrs, ConstantAttrs):
            return np.broadcast_to(node.operands[0].attrs.value, node.type.dims)
        if not isinstance(node.attrs, ConstantAttrs):
            raise UnsupportedError(f"{what} is decided at run time")
        return node.attrs.value

    def target_shape(self, index: int) -> list[Dim | None]:
        """The shape that integer vector `index` asks for, with what shape inference knows of the output
        filled in where the vector says -1 or is unknown (None where both are silent).

        Raises:
            UnsupportedError: not even the rank is known.
        """
        value = self.static(index)
        known = self.output_specs[0].shape
        if value is None and known is None:
            raise UnsupportedError(f"the shape of {self.name}:0 is decided at run time")
        asked: list[Dim | None] = [None] * len(known or ()) if value is None else list(value.flat)
        target = [None if d == -1 else d for d in asked]
        if known is None or len(known) != len(target):
            return target
        return [_better(dim, other) for dim, other in zip(target, known, strict=True)]

    def known_shape(self, index: int) -> Shape:
        """target_shape with no gap; UnsupportedError if there is one."""
        target = self.target_shape(index)
        dims = tuple(d for d in target if d is not None)
        if len(dims) != len(target):
            raise UnsupportedError(f"the shape of {self.name}:0 is decided at run time")
        return dims

    def fresh_symbol(self, tag: str) -> Symbol:
        return fresh_symbol(self.name, tag)

    def product(self, dims: Sequence[Dim], tag: str) -> Dim:
        """Size of axes that become one; a new symbol if more than one factor is known only at run time."""
        symbols = [d for d in dims if isinstance(d, Symbol)]
        total = math.prod(d for d in dims if isinstance(d, int))
        if not symbols:
            return total
        return symbols[0] if len(symbols) == 1 and total == 1 else self.fresh_symbol(tag)

    def shape_of_variable(self, index: int) -> Shape | None:
        """The shape of the variable whose handle is input `index`, if it is known."""
        return self.variable_shape(self.operands[index].handle)

    def read(self, index: int, shape: Shape | None = None) -> Node:
        """The value of the variable whose handle is input `index`; one VARIABLE node per access.

        Args:
            shape: its shape when the caller knows it (that of the gradient).
        """
        handle = self.operands[index].handle
        known = self.variable_shape(handle)
        if known is None or (shape is not None and not all(isinstance(d, int) for d in known)):
            known = shape
        if known is None:
            raise UnsupportedError(f"the shape of the variable {handle} is unknown")
        dtype = self.attrs.dtype("dtype" if self.attrs.has("dtype") else "T")
        self._check_placement(dtype)
        self.reads.append(handle)
        return self.b.variable(handle, dtype, known)

    def write(self, index: int, value: Node) -> None:
        """The variable whose handle is input `index` becomes `value`."""
        self._check_placement(value.type.dtype)
        self.writes[self.operands[index].handle] = value

    def _check_placement(self, dtype: DType) -> None:
        if self.on_gpu and dtype is DType.I32:
            raise UnsupportedError("int32 variables of a GPU live in host memory")

    def _materialize(self, value: StaticValue, dtype: DType) -> Node:
        if is_fixed(value):
            return self.b.constant(np.asarray(value.tolist(), np.int64), dtype)
        parts = [self.b.extent((e,), dtype) if isinstance(e, Symbol) else self.b.constant(e, dtype) for e in value.flat]
        if value.ndim == 0:
            return parts[0]
        whole = self.b.concat([self.b.reshape(p, (1,)) for p in parts], 0)
        return self.b.reshape(whole, tuple(value.shape))


def fresh_symbol(node: str, tag: str) -> Symbol:
    """A symbol that names where an unknown dimension first came up."""
    return Symbol(f"u_{re.sub(r'[^0-9A-Za-z_]', '_', node)}_{tag}")


def is_fresh(dim: Dim) -> bool:
    """True for a symbol that fresh_symbol made: it says nothing about other dimensions."""
    return isinstance(dim, Symbol) and dim.name.startswith("u_")


def _better(dim: Dim | None, inferred: Dim) -> Dim | None:
    """The more telling of what the shape vector says and what shape inference knows."""
    if isinstance(dim, int):
        return dim
    if isinstance(inferred, int):
        return inferred
    if dim is None or (is_fresh(dim) and not is_fresh(inferred)):
        return None if is_fresh(inferred) else inferred
    return dim
