"""Rows of which one thread of a CPU sums both halves at once, so that half as many additions wait for each other.

What is summed then comes from memory too late, unless a row to come is asked for while this one is worked on. (Layer
normalisation on an EPYC: 1.1 to 1.6 times as fast as with one element after the other; from memory, without asking,
0.75 times. Maxima gained 4%, exponentials nothing.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.phases import Phase

LEAST_ROW = 128
"""Elements of a row whose additions are worth it: a few vectors for each half."""
MOST_BYTES = 16 << 10
"""Of what a row reads: this row and the next stay in the nearest cache."""
BYTES_AHEAD = 4096
"""How far ahead a row is asked for at least. (100000 x 256: with the next row 0.9 times as fast as without, with the
fourth 1.1.)"""


def phases_with_two_accumulators(schedule: KernelSchedule, phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Passes over the row that sum both halves at once: sums alone, of a row that is passed over again."""
    m, domain = schedule.mapping, schedule.domain
    alone = m.threads == m.rows_per_block == m.vector == 1 and not m.items and not schedule.staged
    if not alone or isinstance(domain.cols, SymbolicDim) or domain.cols < LEAST_ROW or domain.cols % 2:
        return ()
    elements = domain.rows * domain.cols
    nbytes = sum(n.type.dtype.size * domain.cols for n in schedule.pattern.reads() if n.type.numel == elements)
    if not 0 < nbytes <= MOST_BYTES or len(phases) == 1 or not _only_sums(phases[0]):
        return ()
    return tuple(phase for phase in phases if _only_sums(phase))


def prefetched_rows(cols: int, dtype: DType) -> int:
    """How many rows further on the row is that is asked for."""
    return ceil_div(BYTES_AHEAD, cols * dtype.size)


def _only_sums(phase: Phase) -> bool:
    return not (phase.outputs or phase.columns) and all(
        n.kind is OpKind.SUM and n.operands[0].type.dtype.is_float for n in phase.reductions)
