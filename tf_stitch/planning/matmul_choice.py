"""Which matmuls of a plan become kernels of ours, with what is computed before and after them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import is_in_kernel
from tf_stitch.planning.group_order import GroupOrder, Positions
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import PatternTimes, RegionFacts
from tf_stitch.planning.pattern import Pattern, between, make_pattern
from tf_stitch.planning.stitched_matmul import as_stitched_matmul

MOST_TAKEN_FROM, MOST_LEFT = 64, 16
"""Nodes of a kernel before a call, or made of its results in one behind it, beyond which none is taken: cells have half
as many. Where all steps are cut out of one tensor, or become one, there are hundreds, and what is left of them would be
compiled for each step. The second: of a kernel that calls may take from once more."""


class Stitching(Enum):
    """Which matmuls of a library become kernels of ours: none; those that are predicted to be faster, on GPUs of half
    types; every one that can, with as much as can be, for tests and measurements. Those that were given to kernels
    before (passes/matmuls_to_kernels.py: on CPUs those in float32, where any are asked for) get what is around them in
    any case."""

    NONE = "library"
    PREDICTED = "predicted"
    ALL = "stitched"


def stitching_of(name: str, device: DeviceSpec) -> Stitching:
    """The choice of TF_STITCH_MATMULS on a device: on GPUs none is predicted to be faster where warpgroups do not
    multiply."""
    asked = Stitching(name)
    return Stitching.NONE if asked is Stitching.PREDICTED and device.simt and not device.warpgroup_matmuls else asked


class MatmulChoice:
    """Makes kernels of library calls and of kernels around them, where that is predicted to take less time.

    A call takes over what is element by element of kernels that compute its operands for it alone, and of a kernel that
    reads its result, all of it or as much as there is. Groups stay such that they can run one after the other.

    Args:
        work: nodes that need a kernel or a library call, operands first; positions are places in it.
        needs: for each of them the positions it depends on.
        groups: positions of each pattern; they cover all.

    Attributes:
        calls: library calls that became kernels.
        kernels: how many kernels are gone; a call that became one counts against it.
    """

    def __init__(self, work: Sequence[Node], needs: Sequence[Sequence[int]], groups: Sequence[Sequence[int]],
                 facts: RegionFacts, times: PatternTimes, which: Stitching) -> None:
        self._work, self._needs, self._facts, self._times = work, needs, facts, times
        self._trusted = times.profile.choices
        self._which = which
        self._order = GroupOrder(needs, groups)
        self._groups, self._home = self._order.groups, self._order.home
        self._users: list[list[int]] = [[] for _ in work]
        for user, before in enumerate(needs):
            for p in before:
                self._users[p].append(user)
        self._calls, self._wanted = set[int](), set[int]()
        self.calls = self.kernels = 0

    def choose(self) -> list[tuple[int, ...]]:
        """The new groups."""
        self._calls = {group for group in range(len(self._groups)) if self._is_call(group)}
        self._wanted = wanted = {call for call in self._calls if self._is_wanted(call)}
        if not wanted:
            return [tuple(sorted(group)) for group in self._groups if group]
        order, depths, again = self._order.order, dict[int, int](), list[int]()
        for group in order:
            depths[group] = self._depth(group, depths)
            if group in wanted and not self._waits_less(group, depths, self._calls):
                if self._stitch(group):
                    again.append(group)
                wanted.discard(group)
                depths[group] = self._depth(group, depths)
        for group in order:  # those beside which one seemed to wait longer that stayed a call, or took something else
            if group in wanted and not self._waits_less(group, depths, self._calls - wanted) and self._stitch(group):
                again.append(group)
        others = self._calls | {group for group, members in enumerate(self._groups) if len(members) > MOST_LEFT}
        for group in reversed(again):  # what a cell reads that was computed for it alone, and then what that leaves
            self._stitch(group, others)
        return [tuple(sorted(group)) for group in self._groups if group]

    def _depth(self, group: int, depths: Mapping[int, int]) -> int:
        """How many groups a group waits for, one after the other, as far as is known of those that it waits for and of
        those that these do."""
        def known(one: int) -> int:
            before = (depths.get(other, 0) + 1 for other in self._order.awaited(one))
            return depths[one] if one in depths else max(before, default=0)

        return max((known(one) + 1 for one in self._order.awaited(group)), default=0)

    def _beside(self, call: int, calls: Collection[int]) -> set[int]:
        """Other calls whose results are read where this one's are, as both of a recurrent cell's."""
        readers = {self._home[user] for p in self._groups[call] for user in self._users[p]}
        return {one for reader in readers - {call} for one in self._order.awaited(reader)}.intersection(calls) - {call}

    def _waits_less(self, call: int, depths: Mapping[int, int], calls: Collection[int]) -> bool:
        """Whether another call beside this one waits longer: what reads both should be in that one's kernel, or in one
        of its own behind a library's call, so that this one's has run before."""
        return any(not self._order.awaited(one) <= depths.keys() or self._depth(one, depths) > depths[call]
                   for one in self._beside(call, calls))

    def _is_call(self, group: int) -> bool:
        members = sorted(self._groups[group])
        matmuls = [p for p in members if is_large_matmul(self._work[p])]
        return len(matmuls) == 1 and matmuls == members[:1]

    def _is_wanted(self, group: int) -> bool:
        matmul = self._work[min(self._groups[group])]
        if self._which is Stitching.PREDICTED and matmul.type.dtype in (DType.F16, DType.BF16):
            return True
        return self._which is Stitching.ALL or is_in_kernel(matmul)

    def _stitch(self, call: int, but: Collection[int] = ()) -> bool:
        """Takes what gains most, or all that there is; whether there was something.

        Args:
            but: once more, of other groups than these. Of choices that gain as much, nearly, that which takes most:
                what is left may go to another call.
        """
        found = [*self._choices(call, but), *(() if but else self._divisions(call))]
        choices = [(gain, changed) for changed in found if (gain := self._gain(changed)) is not None]
        every = self._which is Stitching.ALL
        choices = [(len(changed[call]) if every else gain, changed) for gain, changed in choices
                   if every or gain >= self._trusted.stitched_us]
        if not choices:
            return False
        most = max(gain for gain, _ in choices)
        alike = [choice for choice in choices if choice[0] > most - self._trusted.stitched_tie_us] if but else choices
        _, changed = max(alike, key=lambda choice: (len(choice[1][call]) if but else 0, choice[0]))
        stitched = {group for group, members in changed.items() if members > self._groups[group]}
        self._order.change(changed)
        self._wanted -= stitched
        self.calls += len(stitched)
        self.kernels += sum(not members for members in changed.values()) - len(stitched)
        return True

    def _choices(self, call: int, but: Collection[int]) -> Iterator[Mapping[int, Positions]]:
        """Groups that change, and what they become: with operands, with what follows, with both."""
        before = list(self._producers(call, but))
        every = {g: members for one in before for g, members in one.items()}
        producers = [{}, *before, *([every] if len(before) > 1 else [])]
        for taken in producers:
            for after in ({}, *self._followers(call, but)):
                if taken or after:
                    moved = {**taken, **after}
                    together = self._groups[call].union(*moved.values())
                    rest = {g: self._groups[g] - members for g, members in moved.items()}
                    yield {**rest, call: together}

    def _divisions(self, call: int) -> Iterator[Mapping[int, Positions]]:
        """Of each kernel that reads the call's results and those of others, what becomes of all these calls if each
        takes what is made of its own: cells that run at the same time, of both directions of a layer."""
        for group in sorted({self._home[user] for p in self._groups[call] for user in self._users[p]} - {call}):
            calls = sorted({self._home[q] for p in self._groups[group] for q in self._needs[p]} & self._wanted)
            parts = {one: frozenset(self._made_of(one, group)) for one in calls}
            taken = frozenset[int]().union(*parts.values())
            if len(calls) > 1 and call in parts and len(taken) == sum(map(len, parts.values())):
                rest = self._groups[group] - taken
                changed = {one: self._groups[one] | part for one, part in parts.items()}
                if all(self._is_stitched(sorted(members)) for members in changed.values()):
                    yield {group: rest, **changed}

    def _producers(self, call: int, but: Collection[int]) -> Iterator[Mapping[int, Positions]]:
        """Of each kernel what it computes element by element for the call alone."""
        found = {self._home[p] for member in self._groups[call] for p in self._needs[member]} - {call}
        for group in sorted(g for g in found.difference(but) if len(self._groups[g]) <= MOST_TAKEN_FROM):
            inside = set(self._groups[call])
            for p in sorted(self._groups[group], reverse=True):
                alone = self._work[p] not in self._facts.wanted and all(user in inside for user in self._users[p])
                if alone and self._is_stitched((*inside, p)):
                    inside.add(p)
            if len(inside) > len(self._groups[call]):
                yield {group: frozenset(inside - self._groups[call])}

    def _followers(self, call: int, but: Collection[int]) -> Iterator[Mapping[int, Positions]]:
        """Of each kernel that reads the call's results what is made of them element by element."""
        found = {self._home[user] for member in self._groups[call] for user in self._users[member]} - {call}
        for group in sorted(found.difference(but)):
            inside = set(self._groups[call])
            taken: list[int] = []
            made = self._made_of(call, group)
            for p in made if len(made) <= MOST_TAKEN_FROM else ():
                own = [q for q in self._needs[p] if self._home[q] == group]
                if all(q in inside for q in own) and self._is_stitched((*inside, p)):
                    inside.add(p)
                    taken.append(p)
            while taken and not any(user not in self._groups[call] for user in self._users[taken[-1]]) \
                    and self._work[taken[-1]] not in self._facts.wanted:
                taken.pop()
            if taken:
                yield {group: frozenset(taken)}

    def _made_of(self, call: int, group: int) -> list[int]:
        """Of a kernel what is made of a call's results, and what that is made of besides, in order. A kernel may have
        cells of several layers, each for the matmul of its own."""
        made: set[int] = set()
        for p in sorted(self._groups[group]):
            if any(q in made or self._home[q] == call for q in self._needs[p]):
                made.add(p)
        found = set(made)
        for p in sorted(self._groups[group], reverse=True):
            if p in found:
                found.update(q for q in self._needs[p] if self._home[q] == group)
        return sorted(found)

    def _is_stitched(self, positions: Sequence[int]) -> bool:
        return as_stitched_matmul(between(self._pattern(positions))) is not None

    def _gain(self, changed: Mapping[int, Positions]) -> float | None:
        """Microseconds saved if groups became these; None if they cannot, or, where predictions choose, would leave
        more in memory."""
        if not self._order.allows(changed):
            return None
        old, new = [self._groups[g] for g in changed], [members for members in changed.values() if members]
        if self._which is Stitching.PREDICTED and self._written(new) > self._written(old):
            return None
        before, after = list(map(self._us, old)), list(map(self._us, new))
        if None in before or None in after:
            return None
        taken, takes = sum(filter(None, before)), sum(filter(None, after))
        given = any(is_in_kernel(self._work[p]) for group in changed for p in self._groups[group])
        unsure = self._which is Stitching.PREDICTED and not given and takes > self._trusted.stitched_part * taken
        return None if unsure else taken - takes

    def _written(self, groups: Iterable[Positions]) -> int:
        """Bytes of what groups write."""
        return sum(int(node.type.typical_bytes) for group in groups for node in self._pattern(group).outputs)

    def _us(self, group: Positions) -> float | None:
        return self._times.exact(self._pattern(group))

    def _pattern(self, positions: Iterable[int]) -> Pattern:
        return make_pattern((self._work[p] for p in sorted(positions)), self._facts.users, self._facts.wanted,
                            self._facts.free)
