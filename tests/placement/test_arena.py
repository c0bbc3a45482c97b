"""Segments of memory shared by lifetimes."""

from __future__ import annotations

import itertools
import random

import pytest

from tf_stitch.kernel_ir.first_fit import first_fit
from tf_stitch.placement import interval_allocator
from tf_stitch.placement.arena import PARTS, SMALLEST_PART, Lifetime, live_bytes, plan_arena
from tf_stitch.placement.interval_allocator import IntervalAllocator

MIB = 1 << 20


def values(seed: int, count: int, largest: int) -> list[Lifetime]:
    rng = random.Random(seed)
    firsts = [rng.randrange(200) for _ in range(count)]
    return [Lifetime(256 * rng.randint(1, largest // 256), first, first + rng.randrange(40)) for first in firsts]


def overlap(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("largest", [4096, 40 * MIB])
def test_values_there_at_one_time_do_not_overlap_and_none_lies_in_two_segments(seed: int, largest: int) -> None:
    lifetimes = values(seed, 150, largest)
    arena = plan_arena(lifetimes)
    for (i, a), (j, b) in itertools.combinations(enumerate(lifetimes), 2):
        if overlap(a, b):
            x, y = arena.offsets[i], arena.offsets[j]
            assert x + a.nbytes <= y or y + b.nbytes <= x
    starts = list(itertools.accumulate([0, *arena.segments]))
    for value, offset in zip(lifetimes, arena.offsets, strict=True):
        segment = max(i for i, start in enumerate(starts[:-1]) if start <= offset)
        assert offset + value.nbytes <= starts[segment + 1]


@pytest.mark.parametrize("seed", range(20))
def test_little_more_than_what_is_alive(seed: int) -> None:
    lifetimes = values(seed, 400, 8 * MIB)
    arena = plan_arena(lifetimes)
    assert live_bytes(lifetimes) <= sum(arena.segments) <= 1.3 * live_bytes(lifetimes)
    assert len(arena.segments) <= 2 * PARTS


def test_live_bytes() -> None:
    assert live_bytes([]) == 0
    assert live_bytes([Lifetime(10, 0, 1), Lifetime(20, 1, 2), Lifetime(40, 2, 2)]) == 60, "both ends belong to it"
    assert live_bytes([Lifetime(10, 0, 0), Lifetime(20, 1, 1)]) == 20


def test_small_arenas_are_one_piece() -> None:
    assert plan_arena([]).segments == ()
    assert plan_arena([Lifetime(SMALLEST_PART // 4, 0, 9)] * 4).segments == (SMALLEST_PART,)


def test_large_arenas_are_not() -> None:
    assert plan_arena([Lifetime(MIB, 0, 9)] * 160).segments == (10 * MIB,) * 16
    assert plan_arena([Lifetime(100 * MIB, 0, 9), *[Lifetime(MIB, 0, 9)] * 10]).segments == (100 * MIB, 10 * MIB)


@pytest.mark.parametrize("seed", range(30))
def test_the_lowest_place_is_that_among_all_values(seed: int) -> None:
    rng = random.Random(seed)
    memory, there = IntervalAllocator(times := rng.randint(1, 40)), list[tuple[int, Lifetime]]()
    for _ in range(80):
        first = rng.randrange(times)
        value = Lifetime(rng.randint(1, 9), first, rng.randrange(first, times))
        taken = [(at, at + other.nbytes) for at, other in there if overlap(value, other)]
        offset = memory.gap(value.nbytes, value.first, value.last)
        assert offset == first_fit(value.nbytes, taken)
        memory.take(offset, offset + value.nbytes, value.first, value.last)
        there.append((offset, value))


def step_of_training(layers: int) -> list[Lifetime]:
    """Of each layer what its gradient reads, the gradient of its variable, which waits for the norm of all, and what is
    soon gone."""
    rng, end = random.Random(layers), 2 * layers
    small = [256 * rng.randint(1, 16) for _ in range(layers)]
    return [value for i, nbytes in enumerate(small) for value in (
        Lifetime(nbytes, i, end - i), Lifetime(nbytes, end - i, end), Lifetime(nbytes, i, i + 1))]


def test_looking_for_places_grows_little_more_than_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all values looked at, twice the values were four times the work."""
    seen = 0

    def counted(size: int, taken: list[tuple[int, int]]) -> int:
        nonlocal seen
        seen += len(taken)
        return first_fit(size, taken)

    monkeypatch.setattr(interval_allocator, "first_fit", counted)
    work = []
    for layers in (200, 400, 800):
        seen = 0
        plan_arena(step_of_training(layers))
        work.append(seen)
    assert work[2] < 3 * work[1] < 9 * work[0]
