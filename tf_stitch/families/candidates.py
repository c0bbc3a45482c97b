"""What families vary in the templates that they propose (FusionStitching, Algorithm 3: TemplatesGeneration)."""

from __future__ import annotations

from collections.abc import Iterator

from tf_stitch.schedule.kernel_schedule import KernelSchedule

BLOCKS = (128, 256, 512, 1024)
"""Threads of a block that are tried."""
MOST_ELEMENTS = 64
"""Elements of a row that a thread may take without a loop."""


def vectors(schedule: KernelSchedule) -> list[int]:
    """Widths of an access: the family's, its half, and single elements."""
    widest = schedule.mapping.vector
    return sorted({widest, max(widest // 2, 1), 1}, reverse=True)


def powers(first: int, last: int) -> Iterator[int]:
    """first, twice that, and so on up to last."""
    n = first
    while n <= last:
        yield n
        n *= 2
