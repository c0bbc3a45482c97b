"""Reductions of a few elements, computed wherever their result is needed."""

from __future__ import annotations

import math

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, delinearize, var
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex
from tf_stitch.lowering.reduce import accumulator


class ShortReductions(Evaluator):
    """As Evaluator; a reduction that no lowering has computed is a loop of the thread that needs it."""

    def _compute(self, node: Node, index: MultiIndex) -> k.Expr:
        attrs = node.attrs
        if node.category is not Category.REDUCTION or not isinstance(attrs, ReduceAttrs) \
                or not self.pattern.holds(node) or node in self.reduced:
            return super()._compute(node, index)
        x = node.operands[0]
        name, over = self.out.fresh("acc"), [x.type.dims[axis] for axis in attrs.axes]
        for stmt in accumulator(node, name, self.pattern.name(node)):
            self.out.emit(stmt)
        step = Var(self.out.fresh("r"), math.prod(over))
        with self.out.loop(step, k.Loop.SERIAL):
            inner = dict(zip(attrs.axes, delinearize(var(step), over), strict=True))
            kept = iter(index)
            place = tuple(inner[axis] if axis in inner else next(kept) for axis in range(x.type.rank))
            self.out.emit(k.Update(name, node.kind, self.value(x, place)))
        return k.Local(name, node.type.dtype.compute)
