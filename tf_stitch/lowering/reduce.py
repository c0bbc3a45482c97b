"""Accumulators of reductions, shared by the families of rows and of columns."""

from __future__ import annotations

from tf_stitch.ir.graph import Node
from tf_stitch.ir.reductions import ARG_KINDS, initial
from tf_stitch.kernel_ir import nodes as k


def accumulator(node: Node, name: str, note: str) -> list[k.Stmt]:
    """Declares what a reduction accumulates into, with a note; an arg reduction has a value and an index."""
    dtype = node.operands[0].type.dtype.compute
    if node.kind in ARG_KINDS:
        return [k.Accumulator(name, dtype, initial(node)),
                k.Accumulator(f"{name}_at", node.type.dtype, 0, note)]
    return [k.Accumulator(name, dtype, initial(node), note)]
