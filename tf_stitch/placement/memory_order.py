"""An order of a region's steps in which less memory is alive at one time.

Steps that wait for nothing but a region's inputs, such as those of an optimizer's updates, may run in any order: if all
begin what all end later, all that they hand on is alive at once. Here each step is followed by one that frees most, or
takes least. That is taken where it makes an arena smaller by a MiB and a twentieth; on a GPU by more, and by steps in
turn that each fill the device, so that no small kernels lose others beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from tf_stitch.placement.arena import Lifetime, live_bytes, plan_arena
from tf_stitch.placement.concurrency_levels import Touch, concurrency_levels, waits_for

LEAST_SHARE = 0.05
"""Of the arena, that another order has to save."""

Steps = Sequence[Sequence[Touch]]


@dataclass(frozen=True)
class Order:
    """The steps in the order in which they run, by their numbers, and the level of each in that order."""

    steps: tuple[int, ...]
    levels: tuple[int, ...]


def order_steps(steps: Steps, kept: Collection[Hashable], packed: bool, least: int) -> Order:
    """The given order, or one in which less is alive.

    Args:
        steps: what each touches, in an order in which they can run. No two change places of which one writes what the
            other touches.
        kept: memory that is read after all steps.
        packed: steps of one level run at the same time; else one runs after the other.
        least: bytes that an order has to save; and steps of one level that take or free as much wait for each other.
    """
    given = tuple(range(len(steps)))
    now = Order(given, tuple(concurrency_levels(steps)) if packed else given)
    if any(touch.nbytes is None for touches in steps for touch in touches):  # one order has to serve all sizes
        return now
    if live_bytes(_lives(steps, now, kept)) < least:
        return now
    others = [_in_turn(steps, order, kept, least) if packed else Order(order, given)
              for order in (greedy_order(steps, kept), *([given] if packed else []))]
    best = min(others, key=lambda order: live_bytes(_lives(steps, order, kept)))
    before = sum(plan_arena(_lives(steps, now, kept)).segments)
    most = before - max(least, LEAST_SHARE * before)
    lives = _lives(steps, best, kept)
    return best if live_bytes(lives) <= most and sum(plan_arena(lives).segments) <= most else now


def greedy_order(steps: Steps, kept: Collection[Hashable] = ()) -> tuple[int, ...]:
    """The order in which the step comes next, of those that can run, that leaves least alive; the first of equals."""
    sizes, users = _memories(steps)
    left = Counter({memory: len(own) + (memory in kept) for memory, own in users.items()})
    waits = waits_for(steps)
    after: list[list[int]] = [[] for _ in steps]
    for step, earlier in enumerate(waits):
        for one in earlier:
            after[one].append(step)
    open_ = [len(earlier) for earlier in waits]
    touched = [list(dict.fromkeys(t.memory for t in touches if t.memory in sizes)) for touches in steps]
    begun: set[Hashable] = set()

    def grows(step: int) -> int:
        """Bytes that are alive after it and not before."""
        return sum((0 if m in begun else sizes[m]) - (sizes[m] if left[m] == 1 else 0) for m in touched[step])

    ready = [(grows(step), step) for step, count in enumerate(open_) if not count]
    heapify(ready)
    found: list[int] = []
    done = [False] * len(steps)
    while ready:
        growth, step = heappop(ready)
        if done[step] or growth != grows(step):  # an older entry
            continue
        done[step] = True
        found.append(step)
        changed = [m for m in touched[step] if m not in begun or left[m] <= 3]
        begun.update(touched[step])
        for memory in touched[step]:
            left[memory] -= 1
        again = {user for m in changed for user in users[m] if not done[user] and not open_[user]}
        for one in after[step]:
            open_[one] -= 1
            if not open_[one]:
                again.add(one)
        for one in again:
            heappush(ready, (grows(one), one))
    return tuple(found)


def _in_turn(steps: Steps, order: tuple[int, ...], kept: Collection[Hashable], least: int) -> Order:
    """Rounds in which steps that take or free this much memory follow each other as in `order`."""
    own = [steps[i] for i in order]
    sizes, users = _memories(own)
    moved = [0] * len(own)
    for memory, used in users.items():
        moved[used[0]] += sizes[memory]
        if memory not in kept:
            moved[used[-1]] += sizes[memory]
    large = [i for i, nbytes in enumerate(moved) if nbytes >= least]
    return Order(order, tuple(concurrency_levels(own, dict(zip(large[1:], large, strict=False)))))


def _lives(steps: Steps, order: Order, kept: Collection[Hashable]) -> list[Lifetime]:
    """When each memory is needed."""
    sizes, users = _memories([steps[i] for i in order.steps])
    end = max(order.levels, default=0)
    return [Lifetime(sizes[memory], min(order.levels[i] for i in used),
                     end if memory in kept else max(order.levels[i] for i in used)) for memory, used in users.items()]


def _memories(steps: Steps) -> tuple[dict[Hashable, int], dict[Hashable, list[int]]]:
    """Bytes of each memory that steps take, and the places of those that use it, ascending."""
    sizes: dict[Hashable, int] = {}
    users: dict[Hashable, list[int]] = {}
    for i, touches in enumerate(steps):
        for memory, nbytes in {t.memory: t.nbytes for t in touches if t.nbytes}.items():
            sizes[memory] = nbytes
            users.setdefault(memory, []).append(i)
    return sizes, users
