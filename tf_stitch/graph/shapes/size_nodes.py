"""Nodes that give sizes: numbers, and what the shapes of tensors say when the graph runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
from tensorflow import DType, as_dtype, int32, make_tensor_proto
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.node_context import StaticValue
from tf_stitch.frontend.tensorflow.size_names import broadcasts, factors, parts
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.ir.types import Dim, Symbol


@dataclass(frozen=True)
class SizeSource:
    """A tensor that has a size at an axis.

    Attributes:
        dtype: its tensorflow.DataType.
        device: where its shape is read: only that goes elsewhere.
    """

    tensor: str
    dtype: int
    rank: int
    axis: int
    device: str = ""


@dataclass(frozen=True)
class ComputedSize:
    """What sizes are broadcast to (op BroadcastArgs), or their product (Mul)."""

    op: str
    sizes: tuple[SizeExpression, ...]


SizeExpression: TypeAlias = int | SizeSource | ComputedSize


def size_of(dim: Dim | None, sources: Mapping[Symbol, SizeSource]) -> SizeExpression | None:
    """How a size is computed from sources; None if they do not tell it. A product of what others are broadcast to is
    not: where it is 0 those may contradict each other."""
    if not isinstance(dim, Symbol) or dim in sources:
        return sources[dim] if isinstance(dim, Symbol) else dim
    if broadcasts(dim) and broadcasts(dim) != [dim]:
        return None
    op, names = ("BroadcastArgs", sorted(parts(dim), key=str)) if broadcasts(dim) else ("Mul", factors(dim))
    if names == [dim]:
        return None
    sizes = [size_of(name, sources) for name in names]
    known = tuple(size for size in sizes if size is not None)
    return ComputedSize(op, known) if len(known) == len(sizes) else None


class SizeNodes:
    """New nodes; there is one of each. `types` are those of `new`, by name.

    Args:
        fresh: a name that no node has, another one each time.
        dtype: of the sizes, int32 or int64.
    """

    def __init__(self, fresh: Callable[[], str], dtype: DType = int32) -> None:
        self._fresh, self._dtype = fresh, AttrValue(type=dtype.as_datatype_enum)
        self._made: dict[tuple[object, ...], str] = {}
        self._scalars: dict[tuple[SizeExpression, str], str] = {}
        self.new: list[NodeDef] = []
        self.types: dict[str, list[OutputType]] = {}

    def vector(self, sizes: Sequence[SizeExpression], device: str) -> str:
        """A node of these sizes."""
        if all(isinstance(size, int) for size in sizes):
            return self.constant(np.array(sizes), device)
        parts = [self.scalar(size, device) for size in sizes]
        return self._node("Pack", parts, device, (len(parts),), N=AttrValue(i=len(parts)), T=self._dtype,
                          axis=AttrValue(i=0))  # fmt: skip

    def scalar(self, size: SizeExpression, device: str) -> str:
        """A node of this size."""
        if (size, device) not in self._scalars:
            self._scalars[size, device] = self._scalar(size, device)
        return self._scalars[size, device]

    def _scalar(self, size: SizeExpression, device: str) -> str:
        if isinstance(size, SizeSource):
            return self._read(size)
        if isinstance(size, ComputedSize) and size.op == "Mul":
            return reduce(lambda a, b: self._node("Mul", [a, b], device, (), T=self._dtype),
                          [self.scalar(s, device) for s in size.sizes])
        if isinstance(size, ComputedSize):
            line = reduce(lambda a, b: self._node(size.op, [a, b], device, (1,), T=self._dtype),
                          [self.vector([s], device) for s in size.sizes])
            return self._element(line, 0, device)
        return self.constant(np.array(size), device)

    def _read(self, size: SizeSource) -> str:
        shape = self._node("Shape", [size.tensor], size.device, (size.rank,), T=AttrValue(type=size.dtype),
                           out_type=self._dtype)  # fmt: skip
        return self._element(shape, size.axis, size.device)

    def _element(self, vector: str, index: int, device: str) -> str:
        first, end, one = (self.constant(np.array([n]), device, int32) for n in (index, index + 1, 1))
        return self._node("StridedSlice", [vector, first, end, one], device, (), T=self._dtype,
                          Index=AttrValue(type=int32.as_datatype_enum), shrink_axis_mask=AttrValue(i=1))  # fmt: skip

    def constant(self, value: StaticValue, device: str, dtype: DType | None = None) -> str:
        """A node of these numbers, of the type of sizes if no other is given."""
        own = self._dtype if dtype is None else AttrValue(type=dtype.as_datatype_enum)
        proto = make_tensor_proto(value.tolist(), as_dtype(own.type), value.shape)
        return self._node("Const", [], device, value.shape, own, value=AttrValue(tensor=proto), dtype=own)

    def _node(self, op: str, inputs: Sequence[str], device: str, shape: tuple[int, ...],
              result: AttrValue | None = None, **attrs: AttrValue) -> str:
        key = (op, *inputs, device, *(a.SerializeToString() for a in attrs.values()))
        if key not in self._made:
            node = NodeDef(name=self._fresh(), op=op, device=device, input=inputs)
            for attr, value in attrs.items():
                node.attr[attr].CopyFrom(value)
            self.new.append(node)
            self.types[node.name] = [((result or self._dtype).type, shape)]
            self._made[key] = node.name
        return self._made[key]
