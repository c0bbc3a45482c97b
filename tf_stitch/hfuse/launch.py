"""Launch dimensions as users write them, and what devices allow."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tf_stitch.device.spec import H200
from tf_stitch.errors import ConfigError

MOST_THREADS, MOST_BLOCKS, MOST_STATIC_BYTES = 1024, 2**31 - 1, 48 << 10
"""Of a block; of the first dimension of a grid; of shared memory that is not asked for by a launch."""
_SHARED_BYTES = {70: 98304, 72: 98304, 75: 65536, 80: 166912, 86: 101376, 87: 166912, 88: 101376, 89: 101376,
                 90: 232448, 100: 232448, 103: 232448, 110: 232448, 120: 101376, 121: 101376}
"""What a block may ask for, by compute capability (CUDA C++ Programming Guide, Technical Specifications)."""
Dims = tuple[int, int, int]
GRAIN = H200.warp
"""Threads of every part are a multiple of a warp: lanes of one warp belong to one kernel."""


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched.

    Attributes:
        block: dimensions of its blocks; None in the first where it may have any number of threads.
        grid: dimensions of its grid, unless `elements`.
        elements: threads that are needed; the grid has as many blocks as they take.
        dynamic_bytes: shared memory that the launch asks for.
    """

    block: tuple[int | None, int, int]
    grid: Dims = (1, 1, 1)
    elements: int | None = None
    dynamic_bytes: int = 0

    @property
    def tunable(self) -> bool:
        """Whether it may have blocks of other sizes."""
        return self.block[0] is None

    def takes(self, threads: int) -> bool:
        """Whether its blocks may have this many threads."""
        if not self.tunable:
            return threads == self.with_threads(threads).threads
        return threads > 0 and threads % (self.block[1] * self.block[2]) == 0

    def with_threads(self, threads: int) -> Shape:
        """The launch with blocks of this many threads, where they may be chosen."""
        first = self.block[0] if self.block[0] is not None else threads // (self.block[1] * self.block[2])
        block = (first, self.block[1], self.block[2])
        grid = self.grid if self.elements is None else (-(-self.elements // prod(block)), 1, 1)
        return Shape(block, grid, self.dynamic_bytes)


@dataclass(frozen=True)
class Shape:
    """A launch all of whose dimensions are known."""

    block: Dims
    grid: Dims
    dynamic_bytes: int = 0

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return prod(self.block)

    @property
    def blocks(self) -> int:
        """The blocks of the grid."""
        return prod(self.grid)


def parse_launch(block: str, grid: str, dynamic_bytes: int) -> Launch:
    """A launch from flags.

    Args:
        block: "256", "32,8", or with ? in the first place where its size may be chosen: "?", "?,16".
        grid: "512", "64,4", or "N/block": as many blocks as N threads take.

    Raises:
        ConfigError: it is no launch.
    """
    free = block.split(",")[0].strip() == "?"
    y_z = block.split(",")[1:] if free else block.split(",")
    sizes = _dims(",".join(["1", *y_z]) if free else block, "a block", block)
    if prod(sizes) > MOST_THREADS:
        raise ConfigError(f"a block of {block} has {prod(sizes)} threads; {MOST_THREADS} at most")
    if dynamic_bytes < 0:
        raise ConfigError(f"{dynamic_bytes} bytes of shared memory")
    own = (None if free else sizes[0], sizes[1], sizes[2])
    count, slash, rest = grid.partition("/")
    if slash:
        if rest.strip() != "block" or not count.strip().isdecimal() or int(count) < 1:
            raise ConfigError(f"{grid!r} is no grid: say 512, 64,4 or 1000000/block")
        return Launch(own, (1, 1, 1), int(count), dynamic_bytes)
    return Launch(own, _dims(grid, "a grid", grid), None, dynamic_bytes)


def shared_limit(architecture: str) -> int:
    """Shared memory that one block may have on a device of this compute capability; of an unknown one, the most."""
    return _SHARED_BYTES.get(int(architecture), max(_SHARED_BYTES.values()))


def _dims(text: str, what: str, given: str) -> Dims:
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"{given!r} is no size of {what}: one to three positive numbers, as 32,8")
    x, y, z = (*map(int, parts), *[1] * (3 - len(parts)))
    return x, y, z
