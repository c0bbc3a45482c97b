"""Typed access to the attributes of a TensorFlow NodeDef, defaults taken from the op's definition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tensorflow.python.framework import op_def_registry

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.dtypes import enum_name, of_enum
from tf_stitch.frontend.tensorflow.variable_ops import VARIABLES
from tf_stitch.ir.dtypes import DType


@cache
def _op_attrs(op: str) -> dict[str, Any] | None:
    """Attribute definitions of an op by name; None if TensorFlow does not know the op."""
    op_def = op_def_registry.get(op)
    return None if op_def is None else {attr.name: attr for attr in op_def.attr}


@cache
def is_stateful(op: str) -> bool:
    """Whether an op keeps a state, or TensorFlow does not know it."""
    op_def = op_def_registry.get(op)
    return op_def is None or bool(op_def.is_stateful)


@dataclass(frozen=True)
class NodeAttrs:
    """Attributes of `node` (a NodeDef)."""

    node: Any

    def unknown(self) -> str | None:
        """An attribute that the op's definition lacks (a newer producer wrote the graph), or None."""
        known = _op_attrs(self.node.op)
        if known is None:
            return None
        return next((a for a in self.node.attr if not a.startswith("_") and a not in known), None)

    def is_for_xla(self) -> bool:
        """True in a function or cluster that XLA compiles."""
        names = [a for a in self.node.attr if a.startswith(("_XlaMustCompile", "_XlaCompile", "_xla_compile_id"))]
        return any(self.node.attr[a].b or self.node.attr[a].s for a in names)

    def _value(self, name: str) -> Any:
        if name in self.node.attr:  # reading a missing key of a proto map would insert it
            return self.node.attr[name]
        known = _op_attrs(self.node.op) or {}
        if name not in known or not known[name].HasField("default_value"):
            raise UnsupportedError(f"attribute {name} is missing")
        return known[name].default_value

    def has(self, name: str) -> bool:
        return name in self.node.attr or name in (_op_attrs(self.node.op) or {})

    def flag(self, name: str) -> bool:
        return bool(self._value(name).b)

    def integer(self, name: str) -> int:
        return int(self._value(name).i)

    def real(self, name: str) -> float:
        return float(self._value(name).f)

    def string(self, name: str) -> str:
        return bytes(self._value(name).s).decode()

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(self._value(name).list.i)

    def strings(self, name: str) -> tuple[str, ...]:
        return tuple(bytes(s).decode() for s in self._value(name).list.s)

    def enum(self, name: str) -> int:
        """A tensorflow.DataType."""
        return int(self._value(name).type)

    def dtype(self, name: str) -> DType:
        """UnsupportedError for a type that the IR lacks."""
        enum = self.enum(name)
        dtype = of_enum(enum)
        if dtype is None:
            raise UnsupportedError(f"dtype {enum_name(enum)} is not in the IR")
        return dtype

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Dims with -1 for unknown; None for unknown rank."""
        proto = self._value(name).shape
        return None if proto.unknown_rank else tuple(d.size for d in proto.dim)

    def variable_shape(self) -> tuple[int, ...] | None:
        """The shape of the variable whose handle is the node's only output, as a node that stands for it (VARIABLES)
        or a function's argument says; None if it is not fully known."""
        if self.node.op in VARIABLES:
            dims = self.shape("shape")
        else:  # process_function_library_runtime.cc
            protos = list(self.node.attr["_handle_shapes"].list.shape) if "_handle_shapes" in self.node.attr else []
            dims = tuple(d.size for d in protos[0].dim) if len(protos) == 1 and not protos[0].unknown_rank else None
        return dims if dims is not None and all(d >= 0 for d in dims) else None

    def tensor(self, name: str) -> Any:
        """The TensorProto."""
        return self._value(name).tensor
