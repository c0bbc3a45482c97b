"""What the work counter offers to statements about whole tiles."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.program import Program
from tf_stitch.kernel_ir.statement import Statement
from tf_stitch.kernel_ir.work import Access, Work


class TileWork:
    """The work of a program's thread.

    Attributes:
        work: what was counted so far.
        threads, warp: of a block.
        loading: rounds of loads since the last reduction.
    """

    def __init__(self, program: Program) -> None:
        self.work = Work()
        self.threads, self.warp = program.threads, program.warp
        self._loops: list[Var] = []
        self.loading = 0.0

    @abstractmethod
    def body(self, body: Sequence[Statement], times: float, simd: Var | None, serial: Var | None) -> None:
        """Counts the statements of an element, or of a row, that are run so often."""

    @abstractmethod
    def op(self, dtype: DType, kind: OpKind, times: float, simd: Var | None) -> None:
        """Counts ops, in vector loops if `simd` is the variable of one."""

    def at_places(self, place: Sequence[Var], body: Sequence[Statement], times: float) -> None:
        """A body that a thread runs so often, each time at another place."""
        self._loops.append(Var(place[-1].name, math.ceil(times)))
        self.body(body, times, None, None)
        self._loops.pop()

    def waits(self, width: int, times: float) -> None:
        """Counts that this many threads wait for each other."""
        self.work.reductions[width] = self.work.reductions.get(width, 0.0) + times

    def vectors(self, buffer: str, elements: float, store: bool) -> None:
        """Elements that the block's threads access once, four at a time."""
        count = elements / self.threads
        self.work.accesses.append(Access(buffer, count, count, 4, 4, store))

    def close_round(self, times: float, loading: float | None = None) -> None:
        """Loads after this wait for those before: of this many rounds, or of those that were counted."""
        self.work.rounds += (self.loading if loading is None else loading) * times
        self.loading = 0.0
