"""Names of computed sizes say how they are computed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tf_stitch.frontend.tensorflow.size_names import broadcast, broadcasts, less, more, mostly, parts, quotient
from tf_stitch.ir.types import Dim, Symbol

A, B, C = map(Symbol, ("s1", "s2", "s3"))
DIMS = st.lists(st.sampled_from([1, 2, 3, A, B, C]), min_size=1, max_size=4)


def value(size: Dim, sizes: Mapping[str, int]) -> int:
    """What a name says."""
    if isinstance(size, int):
        return size
    total = 1
    for factor in size.name.split("*"):
        numbers = [int(part) if part.isdigit() else atom(part, sizes) for part in factor.split("|")]
        total *= int(np.broadcast_shapes(*((n,) for n in numbers))[0])
    return total


def atom(name: str, sizes: Mapping[str, int]) -> int:
    base, sign, number = re.fullmatch(r"(\w+)([-^]?)(\d*)", name).groups()  # type: ignore[union-attr]
    return {"": sizes[base], "-": max(sizes[base] - int(number or 0), 0), "^": max(sizes[base], int(number or 0))}[sign]


def numbers(dims: Sequence[Dim], sizes: Mapping[str, int]) -> list[int]:
    return [value(d, sizes) for d in dims]


SIZES = st.fixed_dictionaries({name: st.integers(0, 4) for name in ("s1", "s2", "s3")})


@given(DIMS, SIZES)
def test_broadcast(dims: list[Dim], sizes: Mapping[str, int]) -> None:
    """Wherever TensorFlow broadcasts such sizes, the name tells to what."""
    size = broadcast(dims)
    try:
        [wanted] = np.broadcast_shapes(*((n,) for n in numbers(dims, sizes)))
    except ValueError:
        return
    assert size is None or isinstance(size, int) or value(size, sizes) == wanted
    assert size is not None or len({d for d in dims if isinstance(d, int) and d > 1}) > 1


def test_the_order_does_not_matter() -> None:
    assert broadcast([A, B]) == broadcast([B, A, 1, A]) == broadcast([broadcast([A, B]) or 0, A]) == Symbol("s1|s2")
    assert broadcast([A, 5]) == 5
    assert broadcast([A, A]) == A


@pytest.mark.parametrize(("dims", "name"), [(["4*s1", "4*s2"], "4*s1|s2"), (["s1*s3", "s2*s3"], "s1|s2*s3"),
                                            (["4*s1", "s2"], None), (["s1*s2", "s3"], None), (["s1*s2", "s1"], None)])
def test_products_are_broadcast(dims: list[str], name: str | None) -> None:
    assert broadcast(list(map(Symbol, dims))) == (None if name is None else Symbol(name))


@given(DIMS, DIMS, SIZES)
def test_quotient(have: list[Dim], known: list[Dim], sizes: Mapping[str, int]) -> None:
    size, left = quotient(have, known), math.prod(numbers(known, sizes))
    assume(left > 0)
    assert size is None or value(size, sizes) * left == math.prod(numbers(have, sizes))


def test_products_come_apart_again() -> None:
    rows = quotient([A, 4, B, 8], [8])
    assert rows == Symbol("4*s1*s2")
    assert quotient([rows, 8], [A, 8]) == Symbol("4*s2")
    assert quotient([rows], [A, 4]) == B
    assert quotient([A], [2]) is None
    assert quotient([A], [0]) is None


@given(SIZES, st.integers(1, 3))
def test_slices_and_paddings(sizes: Mapping[str, int], number: int) -> None:
    taken = less(A, number)
    assert taken is not None
    assert value(taken, sizes) == len(range(sizes["s1"])[number:])
    again = more(taken, number)
    assert again is not None
    assert value(again, sizes) == value(taken, sizes) + number
    assert mostly(again) == A
    assert more(taken, number + 1) is None
    assert more(A, number) is None


def test_parts() -> None:
    size = Symbol("4*s1|s2*s3^1")
    assert parts(size) == {A, B, Symbol("s3^1")}
    assert broadcasts(size) == [Symbol("s1|s2")]
    assert parts(3) == frozenset()
    assert broadcasts(A) == []
    assert less(Symbol("s1|s2"), 1) is None
