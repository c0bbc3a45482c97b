"""A single kernel to be timed: its geometry, apart from the device that times it."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.dtypes import DType


@dataclass(frozen=True)
class TimedKernel:
    """One launch; `buffers` holds element type, elements and whether the kernel reads each parameter. A cooperative one
    gets the counter of a grid barrier beside."""

    symbol: str
    grid: int
    threads: int
    shared_bytes: int
    buffers: tuple[tuple[str, int, bool], ...]
    cooperative: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(DType(dtype).size * size for dtype, size, _ in self.buffers)
