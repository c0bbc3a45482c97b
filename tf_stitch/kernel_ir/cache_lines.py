"""Which lines of a GPU's first cache the threads of a warp look up."""

from __future__ import annotations

from tf_stitch.kernel_ir.index import Index, Var

CACHE_LINE_BYTES = 128
"""What it looks up at a time."""


def lines_of(index: Index, thread: Var, warp: int, width: int, size: int, stride: int | None) -> int:
    """Lines in which the threads of a warp find their elements.

    Args:
        thread: number of a thread.
        width: elements of a thread.
        size: bytes of an element.
        stride: elements from the first thread's to the second's; None: no fixed number.
    """
    if stride is None:
        return warp
    if thread.name not in index.names:
        return 1
    if stride == width:
        return max(1, warp * width * size // CACHE_LINE_BYTES)
    places = (index.value({thread: lane}) for lane in range(min(warp, thread.extent)))
    return len({place * size // CACHE_LINE_BYTES for place in places})
