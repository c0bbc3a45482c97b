"""An order in which groups of nodes can run, kept while members go from one group to another."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from tf_stitch.errors import StitchError

Positions = frozenset[int]


class GroupOrder:
    """Groups that wait for each other, each behind those it waits for.

    Args:
        needs: for each position, those it depends on.
        groups: positions of each; they cover all.

    Raises:
        StitchError: groups wait for themselves.
    """

    def __init__(self, needs: Sequence[Sequence[int]], groups: Sequence[Iterable[int]]) -> None:
        self._needs = needs
        self.groups = [frozenset(group) for group in groups]
        self.home = {p: g for g, group in enumerate(self.groups) for p in group}
        order = self._sorted(range(len(self.groups)), {})
        if order is None:
            raise StitchError("groups of nodes wait for themselves")
        self._order = order
        self._rank = {group: rank for rank, group in enumerate(order)}

    def allows(self, changed: Mapping[int, Positions]) -> bool:
        """Whether no group would wait for itself if these became others, of the same positions together."""
        return self._window(changed)[1] is not None

    def change(self, changed: Mapping[int, Positions]) -> None:
        """Makes groups others, which they can be."""
        first, window = self._window(changed)
        assert window is not None
        self._order[first:first + len(window)] = window
        self._rank.update((group, first + i) for i, group in enumerate(window))
        for group, members in changed.items():
            self.groups[group] = members
            self.home.update(dict.fromkeys(members, group))

    @property
    def order(self) -> list[int]:
        """The groups, each behind those it waits for."""
        return list(self._order)

    def awaited(self, group: int) -> set[int]:
        """The groups that one waits for."""
        return {self.home[q] for p in self.groups[group] for q in self._needs[p]} - {group}

    def _window(self, changed: Mapping[int, Positions]) -> tuple[int, list[int] | None]:
        """Where the groups stand between the first and the last changed one, and these in an order in which they can
        run. Others need not be looked at: who waits in a ring leaves no group for an earlier one but by a changed
        one."""
        ranks = [self._rank[group] for group in changed]
        first, last = min(ranks), max(ranks)
        return first, self._sorted(self._order[first:last + 1], changed)

    def _sorted(self, window: Sequence[int], changed: Mapping[int, Positions]) -> list[int] | None:
        """Groups such that each stands behind those it waits for, early positions first; None if they cannot."""
        home = {p: group for group, members in changed.items() for p in members}
        members = {group: changed.get(group, self.groups[group]) for group in window}
        waiting: dict[int, int] = dict.fromkeys(window, 0)
        behind: dict[int, set[int]] = {group: set() for group in window}
        for group in window:
            before = {home.get(q, self.home[q]) for p in members[group] for q in self._needs[p]} - {group}
            for one in before & waiting.keys():
                behind[one].add(group)
                waiting[group] += 1
        ready = [(min(members[group], default=0), group) for group in window if not waiting[group]]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, group = heapq.heappop(ready)
            order.append(group)
            for one in behind[group]:
                waiting[one] -= 1
                if not waiting[one]:
                    heapq.heappush(ready, (min(members[one], default=0), one))
        return order if len(order) == len(window) else None
