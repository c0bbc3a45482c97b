"""Which values of a step are kept in memory from where they are written to where they are read, and which are computed
again where they are read, for the least time under a budget of bytes: the problem and its choices.

Checkmate (Jain et al., 2020) decides for each op and each step whether the op runs again there: variables quadratic in
ops. Here the steps and their order are given, and a value may be computed again only at times at which it, or what is
computed from it, is read: variables linear in reads. What that leaves out: other orders, values that are computed early
so that what they are made of need not be kept, and sources that more than a few values in a row are computed from again
(see memory_problem, which says at which times a value may be wanted).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias


class How(Enum):
    """How a value is there for those that read it at some time.

    KEPT: in memory since it was there last. AGAIN: a kernel of its own has computed it again. PASSING: its readers
    compute it themselves, and it is not in memory. ABSENT: nobody reads it then.
    """

    KEPT = "kept"
    AGAIN = "again"
    PASSING = "passing"
    ABSENT = "absent"


@dataclass(frozen=True)
class Use:
    """A time at which a value is read, or may be by what is computed from it again.

    Attributes:
        read: a step of the given plan reads it, so that it has to be there.
        again_us: microseconds of a kernel that computes it again then; None if none can.
        passing_us: microseconds that its readers take longer if they compute it themselves; None if they cannot.
    """

    time: int
    read: bool = True
    again_us: float | None = None
    passing_us: float | None = None

    def us(self, how: How) -> float | None:
        """Microseconds that it takes to have the value so; None if it cannot be had so."""
        if how is How.KEPT:
            return 0.0
        if how is How.ABSENT:
            return None if self.read else 0.0
        return self.again_us if how is How.AGAIN else self.passing_us

    @property
    def can_be_computed(self) -> bool:
        """Whether the value can be computed again then."""
        return self.again_us is not None or self.passing_us is not None


@dataclass(frozen=True)
class Value:
    """
    Attributes:
        written: the time at which it is computed first.
        uses: in order of time, all after `written`.
        sources: numbers of the values that it is computed from. What lies in memory anyway is none.
        by_element: computing it again changes no order of additions, so that sources may be computed in passing.
        kind: equal for values of equal layers.
    """

    nbytes: int
    written: int
    uses: tuple[Use, ...]
    sources: tuple[int, ...] = ()
    by_element: bool = True
    kind: object = None

    @cached_property
    def times(self) -> tuple[int, ...]:
        """Times of its uses."""
        return tuple(use.time for use in self.uses)

    @cached_property
    def kept(self) -> tuple[How, ...]:
        """It is in memory until it is read last."""
        last = max((i for i, use in enumerate(self.uses) if use.read), default=-1)
        return tuple(How.KEPT if i <= last else How.ABSENT for i in range(len(self.uses)))

    @cached_property
    def is_settled(self) -> bool:
        """Whether there is nothing to choose."""
        return all(use.read and not use.can_be_computed for use in self.uses)


Choice: TypeAlias = tuple[tuple[How, ...], ...]
"""For each value, how it is there at each of its uses."""


@dataclass(frozen=True)
class MemoryProblem:
    """
    Attributes:
        fixed: bytes at each time beside the values'.
    """

    values: tuple[Value, ...]
    fixed: tuple[int, ...]

    @cached_property
    def all_kept(self) -> Choice:
        """Nothing is computed again."""
        return tuple(value.kept for value in self.values)

    def alive(self, choice: Choice) -> list[int]:
        """Bytes at each time."""
        change = [0] * (len(self.fixed) + 1)
        for value, hows in zip(self.values, choice, strict=True):
            for first, last in stretches(value, hows):
                change[first] += value.nbytes
                change[last + 1] -= value.nbytes
        return [fixed + own for fixed, own in zip(self.fixed, accumulate(change), strict=False)]

    def peak(self, choice: Choice) -> int:
        """Bytes at one time, at most."""
        return max(self.alive(choice), default=0)

    def us(self, choice: Choice) -> float:
        """Microseconds that are spent on computing values again."""
        return sum(use.us(how) or 0.0 for value, hows in zip(self.values, choice, strict=True)
                   for use, how in zip(value.uses, hows, strict=True))

    def is_there(self, choice: Sequence[Sequence[How]], number: int, time: int, in_memory: bool) -> bool:
        """Whether a value can be read at a time.

        Args:
            in_memory: by who cannot compute it himself.
        """
        value, hows = self.values[number], choice[number]
        i = bisect_left(value.times, time)
        if i == len(value.uses) or time <= value.written:
            return False
        if value.times[i] == time:
            return hows[i] in (How.KEPT, How.AGAIN) or (hows[i] is How.PASSING and not in_memory)
        return hows[i] is How.KEPT

    def allows(self, choice: Choice) -> bool:
        """Whether a choice is one of this problem, and can be made."""
        return [*map(len, choice)] == [len(value.uses) for value in self.values] and not any(self.faults(choice))

    def faults(self, choice: Choice) -> Iterator[str]:
        """What no step could do."""
        for number, (value, hows) in enumerate(zip(self.values, choice, strict=True)):
            before = How.KEPT
            for use, how in zip(value.uses, hows, strict=True):
                if use.us(how) is None:
                    yield f"value {number} is {how.value} at {use.time}"
                if how is How.KEPT and before not in (How.KEPT, How.AGAIN):
                    yield f"value {number} is kept until {use.time}, where it was {before.value} before"
                if how in (How.AGAIN, How.PASSING):
                    in_memory = how is How.AGAIN and not value.by_element
                    for source in value.sources:
                        if not self.is_there(choice, source, use.time, in_memory):
                            yield f"value {number} is {how.value} at {use.time} without value {source}"
                before = how


def stretches(value: Value, hows: Sequence[How]) -> Iterator[tuple[int, int]]:
    """First and last times at which a value is in memory."""
    first = last = value.written
    for use, how in zip(value.uses, hows, strict=True):
        if how is How.KEPT:
            last = use.time
            continue
        if first <= last:
            yield first, last
        first, last = (use.time, use.time) if how is How.AGAIN else (use.time + 1, use.time)
    if first <= last:
        yield first, last


def peaks(alive: Sequence[int], budget: int, most: int) -> list[int]:
    """Times at which more than the budget is alive, and no less than right before and after; the worst first."""
    edges = [-1, *alive, -1]
    tops = [t for t, nbytes in enumerate(alive) if nbytes > budget and edges[t] < nbytes >= edges[t + 2]]
    return sorted(tops, key=lambda t: -alive[t])[:most]
