"""What StitchWhile makes of the roles of inputs and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.native.conftest import COPY, INPUT, OUTPUT, Regions, executable, launch
from tests.native.loop_kernels import (
    COUNT,
    I32,
    KERNELS,
    SUM,
    Symbols,
    check_sum,
    counting,
    items,
    less,
    sum_inputs,
    sum_loop,
    summing,
    sums,
)
from tests.native.loops import (
    Array,
    Beside,
    HostRegion,
    Loop,
    LoopRegions,
    carried,
    element,
    expected,
    fixed,
    last,
    overlay,
    stack,
)
from tests.native.test_while_op import fall_back


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(KERNELS)


@pytest.mark.parametrize("width", [(16,), (3,), (), (2, 5)])
def test_carried_values_rows_and_stacks(regions: Regions, kernel: Symbols, width: tuple[int, ...]) -> None:
    loop = sum_loop(regions, kernel)
    for rows, n in ((1, 1), (2, 2), (40, 40), (40, 17), (40, 1), (40, 0), (0, 0), (16, 16), (17, 17), (130, 130)):
        check_sum(loop, sum_inputs(rows, width, n))
    assert loop.counts() == {"runs": 10, "iterations": 1 + 2 + 40 + 17 + 1 + 16 + 17 + 130, "fallbacks": 0,
                             "preferred_fallbacks": 0}


@pytest.mark.parametrize("row", [element(3, 0), element(3, 1)])
@pytest.mark.parametrize("rows", [stack(1, -1, 0), stack(1, -1, 1), stack(1, 4, 0), stack(1, 4, 1)])
def test_ways(regions: Regions, kernel: Symbols, row: tuple[int, ...], rows: tuple[int, ...]) -> None:
    """The last result stands also in a row: of a stack that comes after it, and one that comes before."""
    roles = Loop((carried(0, 0), carried(2, 1), row), SUM.condition, (last(2, 1), rows, last(2, 1), stack(0)))
    loop = sum_loop(regions, kernel, roles)
    for n in (5, 0, 40, 2, 23):
        check_sum(loop, sum_inputs(max(n, 7), (3,), n))


def test_rows_shine_through(regions: Regions, kernel: Symbols) -> None:
    """Where iterations leave none: at the end, at the beginning, between. There need be no iteration."""
    roles = Loop((carried(0, 0), carried(2, 1), element(3)), SUM.condition,
                 (overlay(1, 5), overlay(1, 5, 1), overlay(1, 5, 2), last(2, 1)))
    loop = sum_loop(regions, kernel, roles)
    for n in (0, 3, 7):
        check_sum(loop, [*sum_inputs(7, (3,), n), np.full((9, 3), 7, I32)])
    assert loop.counts()["fallbacks"] == 0


def test_rows_that_are_not_aligned_have_another_key(regions: Regions, kernel: Symbols) -> None:
    loop = sum_loop(regions, kernel)
    for width in (16, 3):
        check_sum(loop, [tf.constant(x) for x in sum_inputs(4, (width,), 4)])
    assert [key[0] for key in regions.builds[loop.body]] == [1, 0]
    assert [key[1:] for key in regions.builds[loop.body]] == [(0, 1, 16, 1, 16), (0, 1, 3, 1, 3)]


def test_values_that_pass_through(regions: Regions, kernel: Symbols) -> None:
    """Three values change places; one of them is stacked, and one stays."""
    def body(key: tuple[int, ...]) -> list[int]:
        moves = [(0, 1), (1, 2), (2, 0), (4, 3)]  # output, input
        return executable([[4]] * 3 + [[], [4]],
                          [launch(kernel("next"), (INPUT, 4), (OUTPUT, 3)),
                           *([COPY, OUTPUT, to, INPUT, source, 16] for to, source in moves)])

    roles = Loop((carried(2, 0), carried(3, 1), carried(4, 2), fixed(5), carried(0, 3)),
                 (carried(0, 3), fixed(1)), (last(2, 0), last(3, 1), last(4, 2), stack(1), last(5, 4)))
    loop = LoopRegions(regions, roles, [*[tf.float32] * 3, tf.int32, tf.float32], less(kernel), body)
    a, b, c, d = (np.arange(4, dtype=np.float32) + 10 * i for i in range(4))
    for n in range(7):
        first, second, third, rows, kept = loop(0, n, a, b, c, d, types=[tf.float32] * 5)
        order = [(a, b, c), (b, c, a), (c, a, b)][n % 3]
        for found, value in zip((first, second, third, kept), (*order, d), strict=True):
            np.testing.assert_array_equal(found, value)
        np.testing.assert_array_equal(rows, np.reshape(([c, a, b] * 3)[:n], (n, 4)))


def test_a_flag_ends_the_loop(regions: Regions, kernel: Symbols) -> None:
    roles = Loop((carried(0, 0), fixed(1)), (carried(2, 1),), (last(0, 0), last(2, 1), stack(1), stack(0)))
    goes_on = executable([[]], [launch(kernel("not"), (INPUT, 0), (OUTPUT, 0))])
    step = executable([[]] * 2, [launch(kernel("count_to"), (INPUT, 0), (INPUT, 1), (OUTPUT, 0), (OUTPUT, 1))])
    loop = LoopRegions(regions, roles, [tf.int64, tf.bool], lambda key: goes_on, lambda key: step)
    types = [tf.int64, tf.bool, tf.bool, tf.int64]
    start = (1 << 40) + 1
    for n in (1, 2, 50):
        number, done, flags, numbers = loop(np.int64(start), np.int64(start + n), False, types=types)
        assert (int(number), bool(done)) == (start + n, True)
        np.testing.assert_array_equal(flags, [False] * (n - 1) + [True], strict=True)
        np.testing.assert_array_equal(numbers, np.arange(start + 1, start + n + 1), strict=True)
    number, done, flags, _ = loop(np.int64(start), np.int64(start), True, types=types)
    assert (int(number), bool(done), flags.shape) == (start, True, (0,))


SHAPE = (5,)


@st.composite
def loops(draw: st.DrawFn) -> tuple[Loop, list[tuple[int, int, int | None]]]:
    """Roles over the inputs i, n, two vectors, two sets of rows, their number and numbers of rows, and the body's
    results but the counter: (input, input, constant to mix them with; None: the first input is passed through)."""
    count = draw(st.integers(1, 4))
    result, way, vector, rows = st.integers(1, count), st.integers(0, 3), st.integers(2, 3), st.integers(4, 5)
    value = st.one_of(st.builds(fixed, vector), st.builds(carried, vector, result), st.builds(element, rows, way))
    numbers = (carried(0, 0), element(7, draw(st.integers(0, 1))))  # ways 2 and 3
    body = (*numbers, *draw(st.lists(value, min_size=1, max_size=6)))
    source = st.integers(2, len(body) - 1)
    made = [(draw(source), draw(source), draw(st.one_of(st.none(), st.integers(0, 9)))) for _ in range(count)]
    output = st.one_of(st.builds(last, vector, result), st.builds(stack, result, st.just(-1), st.integers(0, 1)),
                       st.builds(stack, result, st.just(6), way), st.builds(overlay, result, rows, way))
    outputs = draw(st.lists(output, min_size=1, max_size=6))
    return Loop(body, (carried(0, 0), fixed(1)), (last(0, 0), *outputs)), made


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=loops(), n=st.sampled_from([0, 1, 2, 3, 16, 17, 40]), spare=st.integers(0, 2), seed=st.integers(0, 99))
def test_random_roles(regions: Regions, kernel: Symbols, case: tuple[Loop, list[tuple[int, int, int | None]]], n: int,
                      spare: int, seed: int) -> None:
    roles, made = case

    def body(key: tuple[int, ...]) -> list[int]:
        steps = [launch(kernel("next"), (INPUT, 0), (OUTPUT, 0))]
        for j, (x, y, constant) in enumerate(made, 1):
            steps.append([COPY, OUTPUT, j, INPUT, x, 4 * items(SHAPE)] if constant is None else launch(
                kernel("mix"), (INPUT, x), (INPUT, y), (OUTPUT, j), sizes=[items(SHAPE), constant]))
        return executable([[], *[SHAPE] * len(made)], steps)

    def meaning(i: Array, *values: Array) -> list[Array]:
        return [np.asarray(i + 1), *(values[x - 1] if constant is None else 5 * values[x - 1] + 3 * values[y - 1] + I32(
            constant) for x, y, constant in made)]

    draw = np.random.default_rng(seed)
    rows = n + spare
    inputs = [np.array(0, I32), np.array(n, I32), *(draw.integers(0, 100, SHAPE, I32) for _ in range(2)),
              *(draw.integers(0, 100, (rows, *SHAPE), I32) for _ in range(2)), np.array(rows, I32),
              draw.integers(0, max(rows, 1), rows, I32)]
    kept = [x.copy() for x in inputs]
    loop = LoopRegions(regions, roles, [tf.int32] * (len(made) + 1), less(kernel), body)
    results = loop(*inputs, types=[tf.int32] * len(roles.outputs))
    for result, value in zip(results, expected(roles, inputs, meaning, lambda i, n: bool(i < n)), strict=True):
        np.testing.assert_array_equal(result, value, strict=True)
    np.testing.assert_equal(inputs, kept)
    assert loop.counts() == {"runs": 1, "iterations": n, "fallbacks": 0, "preferred_fallbacks": 0}
    check_split(regions, kernel, case, inputs, results)


def check_split(regions: Regions, kernel: Symbols, case: tuple[Loop, list[tuple[int, int, int | None]]],
                inputs: Sequence[Array], wanted: Sequence[Any]) -> None:
    """The same loop with its counter, the numbers of rows and the condition on the host."""
    roles, made = case
    _, *numbers = roles.body[:2]
    host = Loop((carried(0, 0), *(element(3, way) for _, _, way in numbers)), roles.condition, ())
    body = tuple((role[0], role[1], role[2] - 1) if role[0] == 1 else role for role in roles.body[2:])
    outputs = tuple(last(role[1], role[2] - 1) if role[0] == 0 else stack(role[1] - 1, min(role[2], 2), role[3])
                    if role[0] == 1 else overlay(role[1] - 1, role[2], role[3]) for role in roles.outputs[1:])

    def words(key: tuple[int, ...]) -> list[int]:
        steps = []
        for j, (x, y, constant) in enumerate(made):
            steps.append([COPY, OUTPUT, j, INPUT, x - 2, 4 * items(SHAPE)] if constant is None else launch(
                kernel("mix"), (INPUT, x - 2), (INPUT, y - 2), (OUTPUT, j), sizes=[items(SHAPE), constant]))
        return executable([SHAPE] * len(made), steps)

    loop = LoopRegions(regions, Loop(body, (), outputs), [tf.int32] * len(made), less(kernel), words,
                       HostRegion(host, counting(kernel), [tf.int32]))
    for_host = [inputs[0], inputs[1], inputs[6], inputs[7]]
    results = loop(*inputs, types=[tf.int32] * len(outputs), host_inputs=for_host)
    for result, value in zip(results, wanted[1:], strict=True):
        np.testing.assert_array_equal(result, value, strict=True)
    assert loop.counts()["fallbacks"] == 0
    assert regions.library.region_runs(loop.beside) == loop.counts()["iterations"] == int(inputs[1])


@pytest.mark.parametrize("second", [carried(2, 1), fixed(2)])
def test_a_body_that_is_ahead_of_the_condition(regions: Regions, kernel: Symbols, second: tuple[int, ...]) -> None:
    """One iteration more begins than counts; where all rows are used there is none for it."""
    roles = Loop((carried(0, 0), second, element(3)), SUM.condition,
                 (last(0, 0), last(2, 1), stack(1), stack(1, 0, 1), stack(0), stack(1, -1, 1)))
    loop = LoopRegions(regions, roles, [tf.int32] * 2, less(kernel), summing(kernel))
    iterations = 0
    for rows, n in ((1, 1), (2, 2), (40, 40), (40, 17), (40, 1), (40, 0), (0, 0), (16, 16), (17, 17), (130, 129)):
        *inputs, count = sum_inputs(rows, (3,), n)
        results = loop(*inputs, types=[tf.int32] * 6, host_inputs=[count])
        wanted = expected(roles, inputs, sums, lambda i, n: bool(i < n), Beside(inputs=[count]))
        for result, value in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result, value, strict=True)
        iterations += n
    assert loop.counts() == {"runs": 10, "iterations": iterations, "fallbacks": 0, "preferred_fallbacks": 0}


COUNT_WORDS = COUNT.encode()


def with_body(*body: tuple[int, ...]) -> list[int]:
    return Loop((carried(0, 0), *body), COUNT.condition, COUNT.outputs).encode()


def with_output(output: tuple[int, ...]) -> list[int]:
    return Loop(COUNT.body, COUNT.condition, (output,)).encode()


@pytest.mark.parametrize(("words", "message"), [
    (COUNT_WORDS[:-1], "ends before"),
    ([*COUNT_WORDS, 0], "left over"),
    (with_body(fixed(3)), "input is out of range"),
    (with_body(fixed(-1)), "input is out of range"),
    (with_body(carried(0, 2)), "result of the body is out of range"),
    (with_body((3, 0)), "role of an input"),
    (with_body(element(0, 4)), "way is out of range"),
    (with_body(element(0, 3)), "numbered row"),
    (with_body(element(0, 2), element(0, 3)), "numbered row"),
    (with_body(fixed(2), element(0, 3)), "contradict"),
    (with_body(carried(2, 0)), "contradict"),
    (Loop(COUNT.body, (element(0, 2), fixed(1)), COUNT.outputs).encode(), "way is out of range"),
    (Loop(COUNT.body, COUNT.condition, ()).encode(), "wrong number of outputs"),
    (with_output(last(2, 0)), "contradict"),
    (with_output(stack(0, 2)), "contradict"),
    (with_output(overlay(0, 2)), "contradict"),
    (with_output(overlay(0, -1)), "input is out of range"),
    (with_output((3, 0, 0, 0)), "role of an output"),
    (with_output(stack(0, -1, 2)), "way is out of range"),
    (with_output(stack(2)), "result of the body is out of range"),
])
def test_bad_roles_are_an_error(regions: Regions, words: list[int], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        regions.library.raw_ops.stitch_while(
            inputs=[0, 3, 1.0], host_inputs=[], Tout=[tf.int32], results=[tf.int32] * 2, region=1, body=2, condition=3,
            roles=words)


def test_shape_function_uses_the_hints(regions: Regions) -> None:
    with tf.Graph().as_default():
        value = regions.library.raw_ops.stitch_while(
            inputs=[0, 3], host_inputs=[], Tout=[tf.int32], results=[tf.int32], region=1, body=2, condition=3,
            roles=COUNT_WORDS, output_shapes=[[None, 3]])
        assert value[0].shape.as_list() == [None, 3]


@pytest.mark.parametrize(("attributes", "message"), [
    ({"condition_on_host": True}, "nothing of"),
    ({"host": 4, "host_roles": [0, 0, 0]}, "nothing of"),
    ({"host": 4, "host_roles": [0, 0], "split": True}, "host_roles .* ends before"),
    ({"host": 4, "host_roles": [1, 0, 0, 0, 0], "split": True}, "input is out of range"),
    ({"roles": with_output(stack(0, 1)), "split": True}, "input is out of range"),
    ({"roles": with_body(element(2, 2)), "split": True}, "way is out of range"),
])
def test_bad_parts_of_the_host_are_an_error(regions: Regions, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        regions.library.raw_ops.stitch_while(**{
            "inputs": [0, 3, 1.0], "host_inputs": [], "Tout": [tf.int32], "results": [tf.int32], "region": 1, "body": 2,
            "condition": 3, "roles": COUNT_WORDS} | attributes)


def test_the_host_checks_an_iteration(regions: Regions, kernel: Symbols) -> None:
    """Whether its number is less than 5, here: an iteration that is none ends the loop with an error."""
    def host(key: tuple[int, ...]) -> list[int]:
        return executable([[], []], [launch(kernel("next"), (INPUT, 0), (OUTPUT, 0)),
                                     launch(kernel("less"), (INPUT, 0), (INPUT, 1), (OUTPUT, 1))])

    reasons: list[str] = []
    beside = HostRegion(Loop((carried(0, 0), fixed(2)), (carried(0, 0), fixed(1)), ()), host, [tf.int32, tf.bool],
                        check=1)
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), counting(kernel), beside, fallback=fall_back(reasons))
    for n, wanted in ((0, 0), (5, 5), (6, -1)):
        zero = np.array(0, I32)
        host_inputs = [zero, np.array(n, I32), np.array(5, I32)]
        assert int(loop(zero, zero, types=[tf.int32], host_inputs=host_inputs)[0]) == wanted
    assert reasons == ["an index of a loop is outside"]


@pytest.mark.parametrize("check", [0, 2])
def test_what_checks_is_one_of_the_results(regions: Regions, kernel: Symbols, check: int) -> None:
    host = HostRegion(Loop((carried(0, 0),), (carried(0, 0), fixed(1)), ()), counting(kernel), [tf.int32, tf.bool],
                      check=check)
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), counting(kernel), host)
    zero = np.array(0, I32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="contradict its roles"):
        loop(zero, zero, types=[tf.int32], host_inputs=[zero, zero])
