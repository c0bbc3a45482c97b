"""Ops on small constants become constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import ConstantAttrs, ExtentAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite

_KEEP = (OpKind.INPUT, OpKind.VARIABLE, OpKind.CONSTANT, OpKind.ASSIGN)


@dataclass(frozen=True)
class FoldConstants:
    """Folds element-wise and movement ops whose operands are constants, up to `limit` elements, sizes, and whatever
    has no elements."""

    limit: int = 1024
    name: str = "fold_constants"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (self._fold, _multiply_by_one))

    def _fold(self, node: Node) -> Node | None:
        if node.type.is_static and node.type.numel == 0 and node.kind not in _KEEP:
            return Builder(node.loc).constant(np.zeros(node.type.dims), node.type.dtype)
        foldable = node.category in (Category.ELEMENTWISE, Category.MOVEMENT) and node.kind is not OpKind.GATHER
        if not (foldable and all(o.kind is OpKind.CONSTANT for o in node.operands)) and node.kind is not OpKind.EXTENT:
            return None
        if not node.type.is_static or _changes(node) or node.type.numel > self.limit:
            return None
        value = interpret(TensorGraph("fold", [("value", node)]), {})["value"]
        return Builder(node.loc).constant(value, node.type.dtype)


def _changes(node: Node) -> bool:
    """Whether its value or shape depends on a size that changes from run to run."""
    shape = node.attrs.shape if isinstance(node.attrs, ExtentAttrs) else node.type.shape
    return any(isinstance(d, SymbolicDim) for d in shape)


def _multiply_by_one(node: Node) -> Node | None:
    """x * 1 and x / 1; exact for every x, NaN and infinities included."""
    if node.kind not in (OpKind.MUL, OpKind.DIV):
        return None
    for x, other in ((node.operands[0], node.operands[1]), (node.operands[1], node.operands[0])):
        if node.kind is OpKind.DIV and x is not node.operands[0]:
            continue
        if other.kind is OpKind.CONSTANT and x.type == node.type \
                and (cast(ConstantAttrs, other.attrs).value == 1).all():
            return x
    return None
