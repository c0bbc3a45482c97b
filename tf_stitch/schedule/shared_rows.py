"""Rows that several blocks share: how long they are, and which blocks."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec

LONG_ROW = 1 << 14
"""Elements of a row from which blocks that share it win more than they wait for each other."""
SHARING_BLOCKS, SHARING_THREADS = 2, 512
"""Resident blocks of a processor that shares rows: while one waits, the other works."""
SHARING_BYTES = 104 * 1024
"""Of a row, what such a block keeps in shared memory."""


def shared_rows(device: DeviceSpec) -> tuple[int, int]:
    """Shortest and longest rows that several blocks may share (see families.row.propose.split_rows); nothing where they
    cannot wait for each other."""
    longest = SHARING_BLOCKS * device.processors * SHARING_BYTES // 4
    return (LONG_ROW, longest) if device.grid_barrier else (0, 0)
