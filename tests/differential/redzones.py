"""Buffers between zones that nothing may touch: a kernel that writes beside its buffer is found, one that reads there
reads NaN."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.differential.runner import Array
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.placement.executable import ALIGNMENT, BufferRef, Copy, DeviceLaunch, Executable, LibraryStep
from tf_stitch.placement.executable_format import Space
from tf_stitch.runtime.device_run import GARBAGE
from tf_stitch.runtime.host_run import aligned_empty

ZONE = int(os.environ.get("TEST_REDZONE", "4096"))
"""Bytes on either side, a multiple of ALIGNMENT. 0: each buffer is an allocation of its own, for compute-sanitizer."""
FILL = 0xFF
"""Of a zone: a NaN in every float type, -1 in integers."""

Gap = tuple[int, int]


class RedzoneError(AssertionError):
    """Something was written beside a buffer; the message says which, where and what."""


def arguments(region: CompiledRegion) -> Iterator[tuple[BufferRef, int]]:
    """Buffers that the steps use, and their bytes. Counters of grid barriers are left out."""
    for step in region.executable.steps:
        if isinstance(step, Copy):
            yield from ((step.target, step.nbytes), (step.source, step.nbytes))
        elif isinstance(step, DeviceLaunch):
            buffers = [b for program in region.programs[step.symbol] for b in program.parameters]
            refs = [ref for ref in step.args if ref.space is not Space.BARRIER]
            yield from ((ref, int(b.size) * b.dtype.size) for ref, b in zip(refs, buffers, strict=True))
        elif isinstance(step, LibraryStep):
            yield from zip(step.args, step.call.operand_bytes(), strict=True)
        else:
            raise TypeError(f"a step {type(step).__name__}")


def spread(region: CompiledRegion, zone: int) -> tuple[Executable, list[Gap]]:
    """The executable with each value of its arena in a place of its own, and the gaps between: bytes from, to."""
    sizes: dict[int, set[int]] = {}
    for ref, nbytes in arguments(region):
        if ref.space is Space.ARENA:
            sizes.setdefault(ref.index, set()).add(nbytes)
    gaps, place, end = [(0, zone)], dict[int, int](), zone
    for offset, found in sorted(sizes.items()):
        place[offset] = end
        begin = end + max(found)
        end = -(-(begin + zone) // ALIGNMENT) * ALIGNMENT
        gaps.append((begin, end))

    def moved(ref: BufferRef) -> BufferRef:
        return BufferRef(ref.space, place[ref.index]) if ref.space is Space.ARENA else ref

    steps = [replace(s, target=moved(s.target), source=moved(s.source)) if isinstance(s, Copy)
             else replace(s, args=tuple(map(moved, s.args))) if isinstance(s, DeviceLaunch | LibraryStep) else s
             for s in region.executable.steps]
    return replace(region.executable, steps=tuple(steps), arena=(end,) if place else ()), gaps if place else []


@dataclass
class Guarded:
    """Buffers between zones, on the GPU or, for kernels that run on a CPU, in NumPy's memory.

    Attributes:
        zone: bytes on either side; 0: none, and memory straight from the driver.
        shift: bytes by which each buffer is moved off its alignment.
    """

    zone: int = ZONE
    shift: int = 0
    on_gpu: bool = True

    def __post_init__(self) -> None:
        self._buffers: list[tuple[str, Any, list[Gap]]] = []

    def allocate(self, nbytes: int) -> Any:
        """Garbage; NaN where it is not on the GPU."""
        garbage = GARBAGE if self.on_gpu else FILL
        return self._between(np.full(max(nbytes, 1), garbage, np.uint8), f"buffer {len(self._buffers)}")

    def hold(self, name: str, values: Array) -> Any:
        """A copy of values, as bytes."""
        return self._between(np.ascontiguousarray(values).reshape(-1).view(np.uint8), name)

    def watch(self, name: str, memory: Any, gaps: Sequence[Gap]) -> None:
        """Makes zones of gaps within a buffer."""
        for begin, end in gaps:
            memory[begin:end] = FILL
        self._buffers.append((name, memory, list(gaps)))

    def _between(self, content: Array, name: str) -> Any:
        if self.on_gpu:
            import cupy
        if not self.zone:
            with cupy.cuda.using_allocator(None):
                return cupy.asarray(content)
        begin = self.zone + self.shift
        whole = aligned_empty((begin + content.size + self.zone,), np.dtype(np.uint8))
        whole[...] = FILL
        whole[begin:begin + content.size] = content
        memory = cupy.asarray(whole) if self.on_gpu else whole
        self._buffers.append((name, memory, [(0, begin), (begin + content.size, whole.size)]))
        return memory[begin:begin + content.size]

    def check(self) -> None:
        """
        Raises:
            RedzoneError: a zone is not as it was.
        """
        for name, memory, gaps in self._buffers:
            for begin, end in gaps:
                found = memory[begin:end].get() if self.on_gpu else memory[begin:end]
                if (found != FILL).any():
                    at = int(np.argmax(found != FILL))
                    raise RedzoneError(f"{name}: {int((found != FILL).sum())} bytes of the zone {begin} to {end} were "
                                       f"written, the first at {begin + at}: {found[at]:#04x}")
