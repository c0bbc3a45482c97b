"""Accesses of kernels to buffers, asked for again and again: each body of statements is walked once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.walk import accesses


class KnownAccesses:
    """Kernels of equal structure have one body, and a body is asked about for each of the buffers that it updates."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Sequence[k.Stmt], dict[str, list[tuple[int, Index, bool]]]]] = {}

    def of(self, body: Sequence[k.Stmt], names: Collection[str]) -> list[tuple[Index, bool]]:
        """Indices at which buffers of `names` are read (False) or written (True), in program order."""
        if id(body) not in self._known:
            self._known[id(body)] = body, _by_buffer(body)  # with the body, so that no other gets its id
        _, by_buffer = self._known[id(body)]
        found = sorted((access for name in names for access in by_buffer.get(name, ())), key=lambda access: access[0])
        return [(index, write) for _, index, write in found]


def _by_buffer(body: Sequence[k.Stmt]) -> dict[str, list[tuple[int, Index, bool]]]:
    """Buffer -> its accesses, each with its place among all."""
    found: dict[str, list[tuple[int, Index, bool]]] = {}
    for place, access in enumerate(accesses(body)):
        found.setdefault(access.buffer, []).append((place, access.index, access.write))
    return found
