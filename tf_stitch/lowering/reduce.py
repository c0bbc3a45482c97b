"""Accumulators of reductions, shared by the families of rows and of columns."""

from __future__ import annotations

from tf_stitch.ir.graph import Node
from tf_stitch.ir.numpy_reference import lowest
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k

ARG_KINDS = (OpKind.ARGMAX, OpKind.ARGMIN)


def initial(node: Node) -> float | int | bool:
    """The value a reduction starts from."""
    kind, dtype = node.kind, node.operands[0].type.dtype.compute
    if kind in (OpKind.MAX, OpKind.MIN, *ARG_KINDS):
        value: float | int = lowest(dtype.numpy, kind in (OpKind.MAX, OpKind.ARGMAX))
        return int(value) if dtype.is_integer else float(value)
    return {OpKind.SUM: 0, OpKind.PROD: 1, OpKind.ANY: False, OpKind.ALL: True}.get(kind, 0)


def accumulator(node: Node, name: str, note: str) -> list[k.Stmt]:
    """Declares what a reduction accumulates into, with a note; an arg reduction has a value and an index."""
    dtype = node.operands[0].type.dtype.compute
    if node.kind in ARG_KINDS:
        return [k.Accumulator(name, dtype, initial(node)),
                k.Accumulator(f"{name}_at", node.type.dtype, 0, note)]
    return [k.Accumulator(name, dtype, initial(node), note)]
