"""Orders of steps in which less memory is alive: they keep every dependence, and none takes more than the given one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Iterator, Sequence

import pytest

from tests.differential import patterns as p
from tests.differential.generator import make_case
from tests.differential.runner import check_all, keys_of
from tests.support.tiers import each_commit
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import planned_kernels
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.placement import memory_order, storage
from tf_stitch.placement.concurrency_levels import Touch, concurrency_levels, waits_for
from tf_stitch.placement.memory_order import Order, greedy_order, order_steps
from tf_stitch.placement.memory_profile import memory_profile

B = p.B
MIB = 1 << 20
Steps = list[list[Touch]]
LEAST, PACKED_LEAST = CPU.profile.sizes.order_bytes, H200.profile.sizes.order_bytes
PACKED = pytest.mark.parametrize("packed", [False, True], ids=["one_by_one", "packed"])


def random_steps(seed: int, count: int) -> tuple[Steps, set[Hashable]]:
    """Each writes a value; some update memory outside of the arena in place, as variables are and what random numbers
    are drawn from."""
    rng = random.Random(seed)
    sizes = [rng.choice((1, 2, 5, 20)) * MIB for _ in range(count)]
    steps: Steps = []
    for i in range(count):
        read = rng.sample(range(i), min(i, rng.randrange(4)))
        touches = [Touch(i, True, sizes[i]), *(Touch(j, False, sizes[j]) for j in read)]
        if rng.random() < 0.4:
            touches.append(Touch(f"variable {rng.randrange(2)}", rng.random() < 0.5))
        steps.append(touches)
    return steps, set(rng.sample(range(count), count // 4))


def respects(order: Order, steps: Sequence[Sequence[Touch]]) -> bool:
    """Whether, of two steps of which one writes what the other touches, the same comes first, in an earlier level."""
    place = {step: at for at, step in enumerate(order.steps)}
    return sorted(order.steps) == list(range(len(steps))) and all(
        place[i] < place[j] and order.levels[place[i]] < order.levels[place[j]]
        for i, j in itertools.combinations(range(len(steps)), 2)
        if any(a.memory == b.memory and (a.writes or b.writes) for a in steps[i] for b in steps[j]))


def alive(steps: Steps, order: Order, kept: set[Hashable]) -> int:
    """By looking at each time."""
    when: dict[Hashable, list[int]] = {}
    sizes: dict[Hashable, int] = {}
    for at, step in enumerate(order.steps):
        for touch in steps[step]:
            when.setdefault(touch.memory, []).append(order.levels[at])
            sizes[touch.memory] = touch.nbytes or 0
    end = max(order.levels)
    return max(sum(sizes[m] for m, at in when.items() if min(at) <= t <= (end if m in kept else max(at)))
               for t in range(end + 1))


def valid_orders(steps: Steps) -> Iterator[tuple[int, ...]]:
    waits = waits_for(steps)
    for order in itertools.permutations(range(len(steps))):
        place = {step: at for at, step in enumerate(order)}
        if all(place[j] < place[i] for i, earlier in enumerate(waits) for j in earlier):
            yield order


@PACKED
@pytest.mark.parametrize("seed", range(80))
def test_every_dependence_is_kept_and_nothing_gets_worse(seed: int, packed: bool) -> None:
    steps, kept = random_steps(seed, 3 + seed % 30)
    numbers = range(len(steps))
    given = Order(tuple(numbers), tuple(concurrency_levels(steps) if packed else numbers))
    found = order_steps(steps, kept, packed, PACKED_LEAST if packed else LEAST)
    assert respects(found, steps)
    before, after = alive(steps, given, kept), alive(steps, found, kept)
    assert found == given or after < before
    assert sorted(greedy_order(steps, kept)) == list(range(len(steps)))


@pytest.mark.parametrize("seed", range(40))
def test_no_order_is_better_than_the_best_of_all(seed: int) -> None:
    steps, kept = random_steps(1000 + seed, 3 + seed % 5)
    times = tuple(range(len(steps)))
    best = min(alive(steps, Order(order, times), kept) for order in valid_orders(steps))
    assert best <= alive(steps, order_steps(steps, kept, False, LEAST), kept)
    assert alive(steps, Order(greedy_order(steps, kept), times), kept) <= 2 * best


@PACKED
def test_updates_that_all_begin_before_any_ends_follow_each_other(packed: bool) -> None:
    steps = [[Touch(("half", i), True, 16 * MIB)] for i in range(10)]
    steps += [[Touch(("half", i), False, 16 * MIB), Touch(("variable", i), True)] for i in range(10)]
    found = order_steps(steps, set(), packed, PACKED_LEAST if packed else LEAST)
    assert respects(found, steps)
    assert alive(steps, found, set()) == 16 * MIB


def test_what_saves_little_stays_side_by_side_on_a_gpu() -> None:
    """Three matmuls of one operand of a layer."""
    steps = [[Touch(i, True, MIB)] for i in range(3)]
    steps.append([*(Touch(i, False, MIB) for i in range(3)), Touch(3, True, MIB)])
    steps += [[Touch(("half", i), True, MIB)] for i in range(8)] + [[Touch(("half", i), False, MIB)] for i in range(8)]
    assert order_steps(steps, set(), True, PACKED_LEAST).steps == tuple(range(len(steps)))
    assert order_steps(steps, set(), False, LEAST).steps != tuple(range(len(steps)))


def test_small_steps_stay_side_by_side() -> None:
    steps = [[Touch(i, True, 1000)] for i in range(10)] + [[Touch(i, False, 1000), Touch(("v", i), True)]
                                                          for i in range(10)]
    assert order_steps(steps, set(), True, PACKED_LEAST).levels == (0,) * 10 + (1,) * 10
    large = [[Touch("a", True, 40 * MIB)], [Touch("a", False, 40 * MIB), Touch("b", True, 40 * MIB)],
             [Touch("c", True, 40 * MIB)], [Touch("c", False, 40 * MIB), Touch("d", True)]]
    small = [[Touch(i, True, 1000)] for i in range(3)]
    found = order_steps([*large, *small], {"b"}, True, PACKED_LEAST)
    assert [found.levels[found.steps.index(4 + i)] for i in range(3)] == [0, 0, 0]


def test_what_is_read_after_all_steps_is_not_freed_before() -> None:
    steps = [[Touch("a", True, 20 * MIB), Touch("b", True, 10 * MIB)], [Touch("a", False, 20 * MIB),
             Touch("c", True, 5 * MIB)], [Touch("b", False, 10 * MIB), Touch("d", True, 4 * MIB)]]
    assert greedy_order(steps) == (0, 1, 2)
    assert greedy_order(steps, {"a"}) == (0, 2, 1)


def test_sizes_that_change_keep_their_order() -> None:
    steps = [[Touch(("half", i), True, None)] for i in range(9)] + [[Touch(("half", i), False, None)] for i in range(9)]
    assert order_steps(steps, set(), False, LEAST).steps == tuple(range(18))


def gram_of_each(count: int, rows: int) -> TensorGraph:
    """Of each matrix the product with itself, and twice the product of that: optimizers of matrices."""
    inputs = [B.input(f"i{i}", DType.F32, (rows, rows)) for i in range(count)]
    squares: list[Node] = [B.dot(x, x, transpose_b=True) for x in inputs]
    return TensorGraph("region", [(f"o{i}", B.dot(square, B.dot(square, x)))
                                  for i, (square, x) in enumerate(zip(squares, inputs, strict=True))])


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
def test_independent_updates_take_the_memory_of_one(device: DeviceSpec) -> None:
    graph = gram_of_each(6, 1536)
    plan = planned_kernels(graph, *keys_of(graph), CompileOptions(device)).buffers
    profile = memory_profile(plan)
    assert plan.live_bytes <= profile.least_bytes + MIB
    assert profile.least_bytes <= 2 * 1536 * 1536 * 4 + MIB


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """However little it saves; of each plan whether its order changed."""
    monkeypatch.setattr(memory_order, "LEAST_SHARE", 0.0)
    changed: list[bool] = []

    def noted(steps: Steps, kept: set[Hashable], packed: bool, least: int) -> Order:
        found = order_steps(steps, kept, packed, 1)
        assert respects(found, steps)
        changed.append(found.steps != tuple(range(len(steps))))
        return found

    monkeypatch.setattr(storage, "order_steps", noted)
    return changed


@pytest.mark.parametrize("seeds", each_commit([range(0, 6)], [range(i, i + 6) for i in range(0, 60, 6)]), ids=str)
def test_results_are_right_in_another_order(seeds: range, ordered: list[bool]) -> None:
    """Random graphs with variables, by the interpreter of kernels and, on CPUs, by kernels."""
    for seed in seeds:
        check_all(make_case(random.Random(7000 + seed), 40, 300).graph, interpret_gpu=True, cuda=False)
    assert any(ordered)
    assert not all(ordered)
