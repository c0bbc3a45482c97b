"""Edges between steps: every conflict is ordered, nothing else is, and none is said twice."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.placement import step_order
from tf_stitch.placement.executable import BufferRef
from tf_stitch.placement.executable_format import Space
from tf_stitch.placement.step_order import Access, _Touched, predecessors

ACCESS = st.builds(lambda space, at, size, writes: Access(BufferRef(space, at), size, writes),
                   st.sampled_from([Space.ARENA, Space.INPUT, Space.OUTPUT]), st.integers(0, 6), st.integers(1, 4),
                   st.booleans())


def arena(at: int, size: int, writes: bool) -> Access:
    return Access(BufferRef(Space.ARENA, at), size, writes)


def test_readers_of_one_value_do_not_wait_for_each_other() -> None:
    steps = [[arena(0, 4, True)], [arena(0, 4, False)], [arena(2, 4, False)], [arena(0, 4, True)]]
    assert predecessors(steps) == [(), (0,), (0,), (1, 2)]


def test_buffers_of_different_spaces_are_apart() -> None:
    assert predecessors([[Access(BufferRef(Space.INPUT, 0), 4, True)],
                         [Access(BufferRef(Space.OUTPUT, 0), 4, True)]]) == [(), ()]


def conflict(a: Access, b: Access) -> bool:
    if not (a.writes or b.writes) or a.ref.space is not b.ref.space:
        return False
    if a.ref.space is not Space.ARENA:
        return a.ref.index == b.ref.index
    return a.ref.index < b.ref.index + b.nbytes and b.ref.index < a.ref.index + a.nbytes


@given(st.lists(st.lists(ACCESS, min_size=1, max_size=3), max_size=12))
def test_exactly_the_conflicts_are_ordered(steps: list[list[Access]]) -> None:
    direct = predecessors(steps)
    reached: list[set[int]] = []
    for before in direct:
        reached.append(set(before).union(*(reached[j] for j in before)))
        for j in before:
            assert not any(j in reached[k] for k in before if k != j), "an edge that follows from others"
    for i, own in enumerate(steps):
        for j in range(i):
            conflicts = any(conflict(a, b) for a in own for b in steps[j])
            assert conflicts <= (j in reached[i])
            assert conflicts >= (j in direct[i])


def test_the_work_grows_with_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of all sizes share the arena one after the other: each shares bytes with many that are long gone."""
    seen = 0
    touched = step_order._Memory.touched

    def counted(memory: step_order._Memory, begin: int, end: int) -> Sequence[_Touched]:
        nonlocal seen
        found = touched(memory, begin, end)
        seen += len(found)
        return found

    monkeypatch.setattr(step_order._Memory, "touched", counted)
    work = []
    for count in (200, 400, 800):
        seen = 0
        rng = random.Random(count)
        values = [(rng.randrange(1000), rng.randint(1, 100)) for _ in range(count)]
        predecessors([[arena(*value, True), arena(*before, False)] for before, value in itertools.pairwise(values)])
        work.append(seen)
    assert work[2] < 2.2 * work[1] < 4.8 * work[0]
