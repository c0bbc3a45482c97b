"""Shape signatures that regions of one structure have met, and the sizes to expect from them."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from tf_stitch.compiler.symbolic_plans import Decisions, SizedPlans
from tf_stitch.ir.dynamic_dims import Relations
from tf_stitch.ir.symbolic_dims import atoms, in_terms_of
from tf_stitch.planning.plan_memory import PlanMemory

Shapes = tuple[tuple[int, ...], ...]
T = TypeVar("T")

MOST_SIGNATURES = 512
"""Executables kept for a family, as many as the native op keeps for a region."""
MOST_SAMPLES = 96
CPU_LENGTHS = (1, 50, 1500)
GPU_LENGTHS = (1, *(n for k in range(3, 11) for n in ((1 << k) - 1, 1 << k)))
"""Sizes on either side of where schedules change: threads of a row and accesses of a thread are powers of two, and
vectors need multiples of 4."""


@dataclass(frozen=True)
class Preparation:
    """Kernels for other sizes in the making, beside the program."""

    work: Callable[[], None]
    future: Future[None]

    def finish(self) -> None:
        """Waits for it; what has not begun is done here, for who waits may be the only one to begin it."""
        if self.future.cancel():
            self.work()
        else:
            self.future.result()


class Change:
    """Which symbols change, and what is known of them."""

    def __init__(self, symbols: frozenset[str] = frozenset()) -> None:
        self.symbols = symbols
        self.relations = Relations()
        self.plans = SizedPlans()
        self.decisions: Decisions | None = None
        self.prepared = False  # kernels for other sizes have been asked for


class ShapeFamily(Generic[T]):
    """Of regions of equal structure on one device. `lock` guards everything.

    The first signature is compiled for its numbers. From the second on, dimensions that differ are arguments of the
    kernels (N1).

    Attributes:
        first: sizes of the first signature.
        change: symbols that have had more than one size.
        preparation: kernels for other sizes, in the making.
        built: executables by shapes, the latest used last.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.plans = PlanMemory()
        self.change = Change()
        self.first: dict[str, int] = {}
        self.preparation: Preparation | None = None
        self.built: OrderedDict[Shapes, T] = OrderedDict()

    def observe(self, sizes: Mapping[str, int]) -> None:
        """A signature is about to be built."""
        self.first = self.first or dict(sizes)
        self.changes(self._different(sizes))

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether some sizes are known to change, and others are as ever."""
        return bool(self.change.symbols) and self.change.symbols.issuperset(self._different(sizes))

    def changes(self, symbols: Collection[str]) -> None:
        """These symbols change, too."""
        if not self.change.symbols.issuperset(symbols):
            self.change = Change(self.change.symbols.union(symbols))

    def finish_preparation(self) -> None:
        """Waits for kernels in the making."""
        preparation, self.preparation = self.preparation, None
        if preparation is not None:
            preparation.finish()

    def find(self, shapes: Shapes) -> T | None:
        """The executable for `shapes`."""
        if shapes not in self.built:
            return None
        self.built.move_to_end(shapes)
        return self.built[shapes]

    def keep(self, shapes: Shapes, built: T) -> None:
        """Keeps an executable, and drops the one not used for longest."""
        self.built[shapes] = built
        while len(self.built) > MOST_SIGNATURES:
            self.built.popitem(last=False)

    def _different(self, sizes: Mapping[str, int]) -> set[str]:
        return {name for name, size in sizes.items() if self.first[name] != size}


def with_parts(sizes: Mapping[str, int], related: Mapping[str, int]) -> dict[str, int]:
    """The sizes, and those of the parts that some are multiples of."""
    return {a.name: a.value for value in related.values() for a in atoms(value)} | dict(sizes)


def expected_sizes(sizes: Mapping[str, int], changing: Collection[str], related: Mapping[str, int],
                   lengths: Sequence[int], before: Mapping[str, int]) -> list[dict[str, int]]:
    """Sizes of symbols that a later signature may have: each changing one at `lengths` while the others stay, all of
    them together, all but one, and, where two of the lengths are neighbours, all at one and one at the other, for one
    of them may be a multiple of a vector; those nearest to `sizes` first. What was equal twice counts as one: source
    and target of a batch.

    Args:
        sizes: of symbols, and of parts (see with_parts).
        related: symbols that others decide, or parts of them.
        before: sizes of symbols in an earlier signature.
    """
    parts = (a.name for value in related.values() for a in atoms(value))
    free = sorted({n for n in (*changing, *parts) if n not in related})
    equal: dict[tuple[int | None, int], list[str]] = {}
    for name in free:
        equal.setdefault((before.get(name), sizes[name]), []).append(name)
    alone = [tuple(names) for names in equal.values()]
    but_one = [tuple(n for n in free if n not in names) for names in alone]
    changes = [dict.fromkeys(names, length) for names in dict.fromkeys((*alone, tuple(free), *but_one)) if names
               for length in lengths]
    neighbours = [(a, b) for a, b in pairwise(lengths) if b == a + 1]
    changes += [dict.fromkeys(names, a) | dict.fromkeys(others, b) for names, others in zip(alone, but_one, strict=True)
                if others for pair in neighbours for a, b in (pair, pair[::-1])]
    found: dict[tuple[tuple[str, int], ...], float] = {}
    for new in changes:
        env = {**sizes, **new}
        env |= {n: int(in_terms_of(value, env)) for n, value in related.items()}
        found[tuple(env.items())] = max(abs(math.log2(length / max(sizes[name], 1))) for name, length in new.items())
    return [dict(env) for env, _ in sorted(found.items(), key=lambda one: one[1])][:MOST_SAMPLES]
