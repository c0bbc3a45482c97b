"""No order of steps takes less memory than the bound, and some take no more."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from tf_stitch.placement.arena import Lifetime, live_bytes
from tf_stitch.placement.memory_bound import least_live_bytes

Steps = Sequence[Sequence[int]]


def orders(waits: Steps) -> Iterator[tuple[int, ...]]:
    for order in itertools.permutations(range(len(waits))):
        place = {step: at for at, step in enumerate(order)}
        if all(place[j] < place[i] for i, earlier in enumerate(waits) for j in earlier):
            yield order


def taken(order: Sequence[int], sizes: Sequence[int], uses: Steps) -> int:
    place = {step: at for at, step in enumerate(order)}
    times: dict[int, list[int]] = {}
    for step, values in enumerate(uses):
        for value in values:
            times.setdefault(value, []).append(place[step])
    return live_bytes([Lifetime(sizes[value], min(at), max(at)) for value, at in times.items()])


def steps(seed: int, count: int) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Each writes a value, reads some of those before, and may update one in place after all who read it."""
    rng = random.Random(seed)
    sizes = [rng.choice((1, 2, 8, 64)) for _ in range(count)]
    uses: list[list[int]] = []
    waits: list[list[int]] = []
    for i in range(count):
        reads = rng.sample(range(i), min(i, rng.randrange(3)))
        waited = [j for value in reads for j in (value,)]
        if i and rng.random() < 0.2:
            updated = rng.randrange(i)
            reads.append(updated)
            waited += [j for j in range(i) if updated in uses[j]]
        uses.append([i, *dict.fromkeys(reads)])
        waits.append(sorted(set(waited)))
    return sizes, uses, waits


@pytest.mark.parametrize("seed", range(60))
def test_no_order_takes_less(seed: int) -> None:
    sizes, uses, waits = steps(seed, 2 + seed % 6)
    assert least_live_bytes(sizes, uses, waits) <= min(taken(order, sizes, uses) for order in orders(waits))


def test_the_bound_is_reached_by_a_chain() -> None:
    """Forward and backward: each value is kept for its gradient."""
    sizes = [3, 5, 7, 7, 5, 3]
    uses = [[0], [0, 1], [1, 2], [2, 3], [1, 3, 4], [0, 4, 5]]
    waits = [[], [0], [1], [2], [3], [4]]
    assert least_live_bytes(sizes, uses, waits) == taken(range(6), sizes, uses) == 3 + 5 + 7 + 7


def test_what_may_run_before_or_after_is_not_counted() -> None:
    """Two values that nobody needs together, though an order may have both."""
    assert least_live_bytes([4, 4, 1, 1], [[0], [1], [0, 2], [1, 3]], [[], [], [0], [1]]) == 5


def test_nothing_runs() -> None:
    assert least_live_bytes([], [], []) == 0
