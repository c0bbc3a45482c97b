"""How many elements one memory access of a thread moves."""

from __future__ import annotations

from tf_stitch.ir.symbolic_dims import divides, surely_less
from tf_stitch.planning.pattern import Pattern

VECTOR_BYTES = 16


def vector_width(pattern: Pattern, cols: int, aligned: bool) -> int:
    """The largest power of two that divides `cols` and keeps the widest element type within 16 bytes.

    Args:
        aligned: whether every buffer starts at a multiple of 16 bytes.
    """
    if not aligned:
        return 1
    tensors = [n.type for n in [*pattern.reads(), *pattern.outputs]]
    widest = max((t.dtype.size for t in tensors if not surely_less(t.numel, cols)), default=4)
    width = min(VECTOR_BYTES // widest, 8)
    while not divides(width, cols):
        width //= 2
    return width
