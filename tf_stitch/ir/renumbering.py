"""Graphs whose sizes change, with other numbers behind these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from tf_stitch.errors import VerifyError
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.op_attrs import Attrs, ConstantAttrs, InputAttrs, VariableAttrs
from tf_stitch.ir.symbolic_dims import SymbolicDim, in_terms_of, size
from tf_stitch.ir.types import Dim, TensorType


class Renumbering:
    """Args:
        numbers: of the sizes' atoms (see ir.dynamic_dims.atom_values).
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._sizes = {name: size(name, number) for name, number in numbers.items()}
        self._known: dict[SymbolicDim, int] = {}

    def type(self, before: TensorType) -> TensorType:
        return TensorType(before.dtype, tuple(map(self._dim, before.shape)))

    def attrs(self, before: Attrs) -> Attrs:
        """The same object where no size occurs."""
        if isinstance(before, InputAttrs | VariableAttrs):
            type_ = self.type(before.type)
            return before if type_ == before.type else replace(before, type=type_)
        if isinstance(before, ConstantAttrs):
            return before
        changed = {f.name: tuple(map(self._dim, value)) for f in fields(before)
                   if isinstance(value := getattr(before, f.name), tuple)
                   and any(isinstance(v, SymbolicDim) for v in value)}
        return replace(before, **changed) if changed else before

    def graph(self, before: TensorGraph) -> TensorGraph:
        """The graph, its nodes in the same order.

        Raises:
            TypeRuleError, VerifyError: it is none for these numbers.
        """
        new: dict[Node, Node] = {}
        for node in before.nodes():
            operands, attrs = [new[o] for o in node.operands], self.attrs(node.attrs)
            if attrs is node.attrs and all(a is b for a, b in zip(operands, node.operands, strict=True)):
                new[node] = node
                continue
            made = make_node(node.kind, operands, attrs, node.loc)
            if made.type != self.type(node.type):
                raise VerifyError(f"{node.type} is {made.type} for other sizes", node.loc)
            new[node] = made
        return TensorGraph(before.name, [(key, new[node]) for key, node in before.outputs])

    def _dim(self, value: Dim) -> Dim:
        if not isinstance(value, SymbolicDim):
            return value
        if value not in self._known:
            self._known[value] = in_terms_of(value, self._sizes)
        return self._known[value]
