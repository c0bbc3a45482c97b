"""Sizes are right as numbers, and equal, divisible or ordered only if they are for every value of their atoms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.ir.symbolic_dims import (
    SymbolicDim,
    atoms,
    ceil_div,
    common_divisor,
    divides,
    in_terms_of,
    size,
    solve,
    solve_exactly,
    solve_multiple,
    surely_less,
)

VALUES = st.integers(1, 40)
STEPS = st.lists(st.tuples(st.sampled_from("+-*/%c"), st.integers(0, 3), st.integers(1, 12)), max_size=5)


def build(n: int, m: int, steps: list[tuple[str, int, int]]) -> int:
    """The same arithmetic on two dimensions and small numbers, as sizes or as plain numbers."""
    total, operands = n, [n, m, n * m]
    for op, which, number in steps:
        other = number if which == 3 else operands[which]
        total = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
                 "/": lambda a, b: a // b, "%": lambda a, b: a % b, "c": ceil_div}[op](total, other)
    return total


@given(VALUES, VALUES, STEPS)
def test_arithmetic_is_that_of_the_numbers(n: int, m: int, steps: list[tuple[str, int, int]]) -> None:
    assert int(build(size("n", n), size("m", m), steps)) == build(n, m, steps)


@given(VALUES, VALUES, VALUES, VALUES, STEPS, STEPS)
def test_what_is_sure_holds_for_other_values(n: int, m: int, other_n: int, other_m: int,
                                             left: list[tuple[str, int, int]],
                                             right: list[tuple[str, int, int]]) -> None:
    a, b = build(size("n", n), size("m", m), left), build(size("n", n), size("m", m), right)
    x, y = build(other_n, other_m, left), build(other_n, other_m, right)
    if a == b:
        assert x == y
    if surely_less(a, b):
        assert x < y
    if int(b) > 0 and divides(b, a):
        assert y == 0 or x % y == 0


def test_no_size_is_a_number() -> None:
    n = size("n", 1)
    assert n != 1
    assert int(n) == 1
    assert n * 4 // 4 == n
    assert (n + 3) - n == 3
    assert not isinstance((n * 6) // n, SymbolicDim)


def test_bounds_of_loops_cancel() -> None:
    n, m = size("n", 17), size("m", 3)
    assert surely_less(n - 1, n)
    assert not surely_less(n, 1000)
    assert (n * m * 64 - 1) // (n * 64) == m - 1
    assert (n * 64 - 1) // 64 == n - 1
    assert divides(4, size("k", 32, 4) * m)
    assert not divides(4, size("k", 32))
    assert common_divisor(n * m * 6, n * 4) == n * 2


def test_relations() -> None:
    n, m, rows = size("n", 17), size("m", 3), size("rows", 51)
    assert solve(rows * 64, n * m * 64) == ("rows", n * m)
    assert solve(n, 17) == ("n", 17)
    assert solve(n * m, rows * n) is not None
    k, other = size("k", 3), size("other", 17)
    assert solve(n * m, k * other) in [("n", other), ("m", k)]
    assert solve(n * m, size("a", 51) * size("b", 1)) is None, "none of equal value"
    assert solve(n * m * 2, k * other) is None
    assert solve_exactly(rows * 64, n * m * 64) == ("rows", n * m)
    assert solve_exactly(n * m, k * other) is None, "equal values decide nothing"
    name, value = solve_multiple(size("rows", 68) * 256, 1024) or ("", 0)
    assert name == "rows"
    assert int(value) == 68
    assert divides(4, value)
    assert solve_multiple(n * 256, 64) is None
    assert solve_multiple(size("n", 18) * 3, 4) is None, "54 is no multiple of 4"


def test_in_terms_of() -> None:
    n, m = size("n", 17), size("m", 3)
    assert in_terms_of(n * m + 2, {"n": 5, "m": 7}) == 37
    assert in_terms_of(n * m, {"n": m}) == m * m
    assert [a.name for a in atoms(n * m + 2)] == ["m", "n"]


def test_a_size_that_is_zero_now_may_be_a_divisor() -> None:
    """A slice of nothing: its kernel is compiled, for other sizes, and not launched."""
    rest = size("n", 3) - 3
    assert int(size("m", 7) // rest) == 0
    assert isinstance(size("m", 7) % rest, SymbolicDim)
