"""Index algebra: what is simplified equals what is computed, for every value of the variables."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir import index as index_module
from tf_stitch.kernel_ir.index import FloorDiv, Index, Var, constant, delinearize, linearize, reach, var


def evaluate(index: Index, env: Mapping[str, int]) -> int:
    total = index.offset
    for atom, c in index.terms:
        if isinstance(atom, Var):
            total += c * env[atom.name]
        else:
            base = evaluate(atom.base, env)
            total += c * (base // atom.divisor if isinstance(atom, FloorDiv) else base % atom.divisor)
    return total


def divides_negative(index: Index, env: Mapping[str, int]) -> bool:
    """Whether C's division would differ from Python's somewhere in the index."""
    bases = [a.base for a, _ in index.terms if not isinstance(a, Var)]
    return any(evaluate(b, env) < 0 or divides_negative(b, env) for b in bases)


def random_index(rng: random.Random, variables: list[Var], depth: int) -> tuple[Index, str]:
    """An index that is never negative, and the same in Python."""
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.2:
            value = rng.randint(0, 12)
            return constant(value), str(value)
        v = rng.choice(variables)
        return var(v), v.name
    x, text = random_index(rng, variables, depth - 1)
    kind = rng.randrange(6)
    number = rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 192])
    if kind == 0:
        return x * number, f"({text}) * {number}"
    if kind == 1:
        return x // number, f"({text}) // {number}"
    if kind == 2:
        return x % number, f"({text}) % {number}"
    if kind == 3:  # a flipped axis
        high = x.bounds[1]
        return constant(high) - x, f"{high} - ({text})"
    y, other = random_index(rng, variables, depth - 1)
    return x + y, f"({text}) + ({other})"


@given(st.randoms(use_true_random=False))
def test_simplified_index_equals_brute_force(rng: random.Random) -> None:
    variables = [Var(name, rng.choice([1, 2, 3, 4, 8, 12])) for name in "abc"]
    for _ in range(8):
        index, text = random_index(rng, variables, 5)
        code = compile(text, "index", "eval")
        low, high = index.bounds
        for values in itertools.product(*(range(v.extent) for v in variables)):
            env = dict(zip("abc", values, strict=True))
            want = eval(code, {}, env)
            assert evaluate(index, env) == want, text
            assert low <= want <= high, text
            assert not divides_negative(index, env), f"{text} -> {index}"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_delinearize_is_the_inverse_of_linearize(dims: list[int], vars_: list[int]) -> None:
    variables = [Var(f"i{n}", d) for n, d in enumerate(dims)]
    flat = linearize([var(v) for v in variables], dims)
    assert delinearize(flat, dims) == tuple(var(v) for v in variables)
    whole = Var("flat", 1)
    for d in dims:
        whole = Var("flat", whole.extent * d)
    assert linearize(delinearize(var(whole), dims), dims) == var(whole)


@pytest.mark.parametrize(("grid", "threads", "dims"), [(3, 128, (2, 24, 8)), (6, 32, (4, 3, 16)), (5, 64, (5, 4, 4, 4)),
                                                       (9, 32, (3, 3, 8, 4)), (7, 48, (7, 6, 8))])
def test_a_row_of_a_block_delinearises_and_comes_back(grid: int, threads: int, dims: tuple[int, ...]) -> None:
    row = var(Var("block", grid)) * threads + var(Var("thread", threads))
    assert linearize(delinearize(row, dims), dims) == row


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_rows_of_a_batch_that_changes_come_back_whatever_it_is_at_hand(batch: int) -> None:
    b = size("b", batch)
    row = var(Var("block", b)) * 4 + var(Var("thread", 128)) // 32
    assert row.bounds == (0, 4 * b - 1)
    assert (row * -1).bounds == (1 - 4 * b, 0)
    assert linearize(delinearize(row, (b, 4)), (b, 4)) == row


def test_reshape_of_reshape_cancels() -> None:
    r, c = Var("r", 6), Var("c", 4)
    flat = var(r) * 4 + var(c)
    assert linearize(delinearize(flat, (3, 8)), (3, 8)) == flat
    assert linearize(delinearize(linearize(delinearize(flat, (2, 3, 4)), (2, 3, 4)), (24,)), (24,)) == flat


def test_a_slice_of_a_reshape_joins_with_its_offset() -> None:
    x = var(Var("x", 8)) + 5
    assert (x // 4) * 4 + x % 4 == x


def test_coefficient_is_none_inside_a_division() -> None:
    x = Var("x", 16)
    assert (var(x) * 3 + 1).coefficient(x) == 3
    assert (var(x) // 3).coefficient(x) is None
    assert constant(7).coefficient(x) == 0


def test_the_outermost_axis_that_counts_takes_no_remainder() -> None:
    """An offset lies inside its array: the last block of a loop need not know it."""
    beyond = var(Var("block", 3)) * 4 + var(Var("x", 4))
    assert delinearize(beyond, (1, 1, 10)) == (constant(0), constant(0), beyond)
    assert delinearize(beyond, (1, 5, 2)) == (constant(0), beyond // 2, beyond % 2)


def test_empty_axes_delinearise_to_zero() -> None:
    assert delinearize(constant(0), (3, 0, 2)) == (constant(0),) * 3


def test_steps_of_a_division_that_would_undo_each_other_are_one() -> None:
    """floor(i / 8) does not simplify here, and floor(floor(i / 8) / 8) is floor(i / 64) again (seen by the fuzzer)."""
    chunk = Var("chunk", 52)
    index = constant(770) - var(chunk) % 4 + (var(chunk) // 4) * 40
    for divisor in (8, 64):
        for value in range(chunk.extent):
            wanted = (770 - value % 4 + value // 4 * 40) // divisor
            assert evaluate(index // divisor, {"chunk": value}) == wanted


def test_what_an_index_is_worked_out_from() -> None:
    row, column = Var("row", 70000), Var("column", 70000)
    flat = var(row) * 70000 + var(column)
    assert reach(flat) == 70000 * 69999 + 69999
    assert reach(flat // 70000 // 70000) <= reach(flat)
    assert reach((flat + 5) // 11 - 3) >= 70000 * 69999, "of what is divided"
    assert reach(var(column) - 100000) == 100000 + 69999


def test_an_index_is_what_its_terms_and_offset_are() -> None:
    a, b = Var("a", 4), Var("b", 8)
    one, same = var(a) * 8 + var(b), linearize((var(a), var(b)), (4, 8))
    other = replace(one, offset=1)
    assert one == same != other
    assert len({one, same, other, one + 1}) == 2, "a copy has a hash of its own"
    assert one.names == {"a", "b"}
    assert [index.bounds for index in (one, same, other)] == [(0, 31), (0, 31), (1, 32)]
    with pytest.raises(FrozenInstanceError):
        one.offset = 2  # type: ignore[misc]


def test_the_terms_of_a_sum_are_in_one_order() -> None:
    a, b, c = (var(Var(name, 100)) for name in "abc")
    parts = [a * 3, b // 7, b % 7, c // 5 * 2, constant(4)]
    sums = {sum(order, constant(0)) for order in itertools.permutations(parts)}
    assert [str(index) for index in sums] == ["(b)%7 + (b)//7 + (c)//5*2 + a*3 + 4"]


def test_numbers_leave_the_terms_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = var(Var("a", 100)), var(Var("b", 100))
    one = a // 7 * 3 + b * 2 + 5
    monkeypatch.setattr(index_module, "_collect", None)  # sorts and joins, for nothing here
    assert one * 1 is one
    assert str(one + 2 - 1) == "(a)//7*3 + b*2 + 6"
    assert str(one * -2) == "(a)//7*-6 + b*-4 + -10"
    assert one * 0 == constant(0)
