"""Which loops of a kernel program compilers make vector code of, and what loops load by vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.walk import statements


def vectorises(body: Sequence[k.Stmt], over: Var) -> bool:
    """Whether compilers make vector code of a loop with that body. They ask conditions that stay the same outside."""
    for stmt in body:
        if isinstance(stmt, k.For | k.ArgUpdate | k.Fail | k.Array):
            return False
        if isinstance(stmt, k.If):
            asked = stmt.condition.index if isinstance(stmt.condition, k.InRange) else None
            if asked is None or over in asked.variables() or not vectorises((*stmt.body, *stmt.orelse), over):
                return False
    return True


def loaded_together(loop: k.For) -> int:
    """Elements of a tensor that a GPU's thread has under way in a loop, if that says so (For.together); else 1."""
    if loop.together <= k.TOGETHER:
        return 1
    return loop.together * max((s.width for s in statements(loop.body) if isinstance(s, k.LoadVector)), default=1)
