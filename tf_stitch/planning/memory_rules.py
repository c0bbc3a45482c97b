"""What has to hold of a choice of what is computed again, as a linear program has it: its columns and its rows.

Binary variables, the columns, say for each use of a value whether it is kept until then, computed again by a kernel, or
by its readers. In large programs values of equal layers have the same columns: they are decided together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.planning.memory import Choice, How, MemoryProblem

MANY, PIECES = 600, 4
"""Variables from which on values of equal layers are decided together, those of neighbouring layers in this many
pieces: a budget between two decisions for all of them would be met by the dearer one."""
_HOWS = (How.KEPT, How.AGAIN, How.PASSING)
_KEPT, _AGAIN, _PASSING = range(3)
_NONE = -1
_Columns: TypeAlias = tuple[int, int, int]
"""Of a use: the numbers of the columns that say _HOWS; _NONE for what cannot be."""


@dataclass(frozen=True)
class Rule:
    """The sum of some columns, less that of others, is no more than a number, or is that number."""

    these: frozenset[int]
    of: frozenset[int] = frozenset()
    most: int = 0
    exactly: bool = False


class MemoryRules:
    """The columns and rows of a problem.

    Attributes:
        us: microseconds that each column costs.
        together: values share columns.
    """

    def __init__(self, problem: MemoryProblem) -> None:
        self._problem, self.us = problem, list[float]()
        self._open = [n for n, value in enumerate(problem.values) if not value.is_settled]
        keys = _keys(problem, self._open)
        self.together = len(set(keys.values())) < len(keys)
        known: dict[object, tuple[_Columns, ...]] = {}
        for n in self._open:
            if keys[n] not in known:
                known[keys[n]] = tuple(self._new_columns(n))
        self._of = {n: known[keys[n]] for n in self._open}
        for n in self._open:
            for use, columns in zip(problem.values[n].uses, self._of[n], strict=True):
                for how, column in zip(_HOWS, columns, strict=True):
                    if column != _NONE:
                        self.us[column] += use.us(how) or 0.0

    def _new_columns(self, number: int) -> Iterator[_Columns]:
        for use in self._problem.values[number].uses:
            found = [_NONE] * len(_HOWS)
            for i, how in enumerate(_HOWS):
                if use.us(how) is not None:
                    found[i] = len(self.us)
                    self.us.append(0.0)
            yield found[_KEPT], found[_AGAIN], found[_PASSING]

    def found(self) -> Iterator[Rule]:
        """The rows, those of equal layers once."""
        return iter(dict.fromkeys(rule for n in self._open for rule in self._about(n)))

    def _about(self, number: int) -> Iterator[Rule]:
        """What has to hold of a value."""
        value, columns = self._problem.values[number], self._of[number]
        for i, (use, own) in enumerate(zip(value.uses, columns, strict=True)):
            yield Rule(_there(own), most=1, exactly=use.read)
            if i:
                yield Rule(frozenset((own[_KEPT],)), _there(columns[i - 1][:_PASSING]))
            for how in (_AGAIN, _PASSING):
                for source in value.sources if own[how] != _NONE else ():
                    there = self._can_be_read(source, use.time, how == _AGAIN and not value.by_element)
                    if there is not None and own[how] not in there:
                        yield Rule(frozenset((own[how],)), there)

    def _can_be_read(self, number: int, time: int, in_memory: bool) -> frozenset[int] | None:
        """Columns one of which says that a value can be read at a time; None if it can in any case.

        Args:
            in_memory: by who cannot compute it himself.
        """
        value = self._problem.values[number]
        i = bisect_left(value.times, time)
        if time <= value.written or i == len(value.uses):
            return frozenset()
        if number not in self._of:
            return None
        columns = self._of[number][i]
        return _there(columns[:_AGAIN] if value.times[i] > time else columns[:_PASSING] if in_memory else columns)

    def alive(self, time: int) -> tuple[int, dict[int, int]]:
        """Bytes at a time: those there in any case, and those that columns bring."""
        constant, found = self._problem.fixed[time], defaultdict[int, int](int)
        for number, value in enumerate(self._problem.values):
            if not value.written <= time <= max(value.times, default=value.written):
                continue
            if time == value.written or number not in self._of:
                constant += value.nbytes
                continue
            i = bisect_left(value.times, time)
            for column in _there(self._of[number][i][:_PASSING if value.times[i] == time else _AGAIN]):
                found[column] += value.nbytes
        return constant, found

    def choice(self, chosen: Sequence[bool]) -> Choice:
        """What the columns say.

        Args:
            chosen: of each column.
        """
        found = list(self._problem.all_kept)
        for n in self._open:
            found[n] = tuple(next((how for how, column in zip(_HOWS, columns, strict=True)
                                   if column != _NONE and chosen[column]), How.ABSENT) for columns in self._of[n])
        return tuple(found)

    def columns_of(self, choice: Choice) -> Collection[int]:
        """The columns that say it."""
        return {columns[_HOWS.index(how)] for n in self._open
                for columns, how in zip(self._of[n], choice[n], strict=True) if how is not How.ABSENT}


def _there(columns: Sequence[int]) -> frozenset[int]:
    return frozenset(column for column in columns if column != _NONE)


def _keys(problem: MemoryProblem, numbers: Sequence[int]) -> dict[int, object]:
    """What stands for each value: itself or, in large programs, its kind and the piece of the layers that it is of."""
    if sum(2 * len(problem.values[n].uses) for n in numbers) <= MANY:
        return {n: n for n in numbers}
    like: dict[object, list[int]] = {}
    for n in numbers:
        value = problem.values[n]
        shape = tuple((use.read, use.again_us is None, use.passing_us is None) for use in value.uses)
        like.setdefault(n if value.kind is None else (value.kind, shape), []).append(n)
    return {n: (key, at * PIECES // len(members)) for key, members in like.items()
            for at, n in enumerate(sorted(members, key=lambda n: problem.values[n].written))}
