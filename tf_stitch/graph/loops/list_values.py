"""TensorFlow's list ops on lists whose length is known: elements go from op to op as plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.attributes import NodeAttrs
from tf_stitch.frontend.tensorflow.dtypes import enum_name, of_enum
from tf_stitch.frontend.tensorflow.loop_values import Number, TensorList, Value, Wire, scalar, with_element


class Maker(Protocol):
    """Makes nodes of the new graph, named after the list op that they stand for."""

    def node(self, op: str, suffix: str, inputs: Sequence[Wire], outputs: int, attrs: Mapping[str, Any]
             ) -> list[Wire]: ...

    def constant(self, value: Number, suffix: str = "") -> Wire: ...

    def dtype(self, wire: Wire) -> int:
        """A tensor's tensorflow.DataType."""

    def dims(self, wire: Wire) -> tuple[int, ...] | None:
        """A tensor's shape; a negative size is unknown."""


@dataclass(frozen=True)
class ListOp:
    """A list op with what it is given."""

    node: Any
    operands: Sequence[Value]
    make: Maker

    @property
    def attrs(self) -> NodeAttrs:
        return NodeAttrs(self.node)

    def the_list(self, index: int = 0) -> TensorList:
        operand = self.operands[index]
        if not isinstance(operand, TensorList):
            raise UnsupportedError("takes a list that is not known")
        return operand

    def wire(self, index: int) -> Wire:
        operand = self.operands[index]
        if isinstance(operand, TensorList):
            raise UnsupportedError("puts a list into a list")
        return operand

    def number(self, index: int) -> int:
        value = scalar(self.operands[index])
        if value is None:
            raise UnsupportedError("takes an index or a length that is decided by data")
        return value

    def zeros(self, values: TensorList, shape: Wire) -> Wire:
        """An element that nobody has set."""
        like = next((e for e in values.elements if e is not None), None)
        dtype = self.attrs.enum("element_dtype")
        if like is not None:
            return self.make.node("ZerosLike", "/zeros", [like], 1, {"T": dtype})[0]
        return self.make.constant(np.zeros(_known(shape, values.shape), _numpy(dtype)), "/zeros")

    def element(self, values: TensorList, index: int, shape: Wire) -> Wire:
        if not 0 <= index < len(values.elements):
            raise UnsupportedError(f"takes element {index} of a list of {len(values.elements)}")
        found = values.elements[index]
        return self.zeros(values, shape) if found is None else found


Rule: TypeAlias = Callable[[ListOp], list[Value]]


def _empty(op: ListOp) -> list[Value]:
    return [TensorList((), op.wire(0))]


def _reserve(op: ListOp) -> list[Value]:
    return [TensorList((None,) * op.number(1), op.wire(0))]


def _from_tensor(op: ListOp) -> list[Value]:
    dims = op.make.dims(op.wire(0))
    if not dims or dims[0] < 0:
        raise UnsupportedError("makes a list of a tensor whose first size is not known")
    attrs = {"T": op.attrs.enum("element_dtype"), "num": dims[0], "axis": 0}
    parts = op.make.node("Unpack", "/unpack", [op.wire(0)], dims[0], attrs) if dims[0] else []
    return [TensorList(tuple(parts), op.wire(1))]


def _get(op: ListOp) -> list[Value]:
    return [op.element(op.the_list(), op.number(1), op.wire(2))]


def _set(op: ListOp) -> list[Value]:
    return [with_element(op.the_list(), op.number(1), op.wire(2))]


def _push(op: ListOp) -> list[Value]:
    values = op.the_list()
    return [replace(values, elements=(*values.elements, op.wire(1)))]


def _pop(op: ListOp) -> list[Value]:
    values = op.the_list()
    last = op.element(values, len(values.elements) - 1, op.wire(1))
    return [replace(values, elements=values.elements[:-1]), last]


def _stack(op: ListOp) -> list[Value]:
    values, dtype = op.the_list(), op.attrs.enum("element_dtype")
    if not values.elements:
        return [op.make.constant(np.zeros((0, *_known(op.wire(1), values.shape)), _numpy(dtype)))]
    zeros = op.zeros(values, op.wire(1)) if None in values.elements else None
    parts = [zeros if e is None else e for e in values.elements]
    return list(op.make.node("Pack", "", [p for p in parts if p is not None], 1,
                             {"T": dtype, "N": len(parts), "axis": 0}))


def _length(op: ListOp) -> list[Value]:
    return [op.make.constant(np.array(len(op.the_list().elements), np.int32))]


def _element_shape(op: ListOp) -> list[Value]:
    shape = op.the_list().shape
    if shape.number is None:
        raise UnsupportedError("asks for a shape that is not known")
    return [op.make.constant(shape.number.astype(_numpy(op.attrs.enum("shape_type"))))]


def _zeros_like(op: ListOp) -> list[Value]:
    def zeros(index: int, element: Wire) -> Wire:
        return op.make.node("ZerosLike", f"/element_{index}", [element], 1, {"T": op.make.dtype(element)})[0]

    values = op.the_list()
    made = tuple(None if e is None else zeros(i, e) for i, e in enumerate(values.elements))
    return [replace(values, elements=made)]


def _add(op: ListOp) -> list[Value]:
    def total(index: int, parts: Sequence[Wire]) -> Wire:
        attrs = {"T": op.make.dtype(parts[0]), "N": len(parts)}
        return op.make.node("AddN", f"/element_{index}", parts, 1, attrs)[0]

    lists = [op.the_list(i) for i in range(len(op.operands))]
    if len({len(values.elements) for values in lists}) > 1:
        raise UnsupportedError("adds lists of different lengths")
    made: list[Wire | None] = []
    for index, elements in enumerate(zip(*(values.elements for values in lists), strict=True)):
        parts = [e for e in elements if e is not None]
        made.append(total(index, parts) if len(parts) > 1 else parts[0] if parts else None)
    return [replace(lists[0], elements=tuple(made))]


RULES: Mapping[str, Rule] = {
    "EmptyTensorList": _empty, "TensorListReserve": _reserve, "TensorListFromTensor": _from_tensor,
    "TensorListGetItem": _get, "TensorListSetItem": _set, "TensorListPushBack": _push, "TensorListPopBack": _pop,
    "TensorListStack": _stack, "TensorListLength": _length, "TensorListElementShape": _element_shape,
    "ZerosLike": _zeros_like, "AddN": _add, "Identity": lambda op: [op.the_list()],
}

CREATORS = frozenset({"EmptyTensorList", "TensorListReserve", "TensorListFromTensor"})
"""Make a list of something else."""


def _known(*shapes: Wire) -> tuple[int, ...]:
    """The first of the shapes that is wholly known.

    Raises:
        UnsupportedError: none is.
    """
    for shape in shapes:
        if shape.number is not None and shape.number.ndim == 1 and (shape.number >= 0).all():
            return tuple(int(d) for d in shape.number)
    raise UnsupportedError("has an element of no known shape that nobody has set")


def _numpy(enum: int) -> Any:
    dtype = of_enum(enum)
    if dtype is None:
        raise UnsupportedError(f"dtype {enum_name(enum)} is not in the IR")
    return dtype.numpy
