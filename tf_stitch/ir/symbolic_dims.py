"""Sizes that change from run to run: integers that remember where they come from.

A Size is an int with the polynomial that gave it, over atoms: dimensions, and rounded quotients of other sizes. Code
that computes with sizes works on numbers as ever, and the numbers are right. What it gains is that a kernel lowered for
one shape tells which of its numbers are parameters: those that are Sizes. Two rules make kernels of different shapes
alike:

- two Sizes are equal if their polynomials are, and none equals a plain number: no decision is taken because two numbers
  happen to agree;
- `surely_less` and `divides` hold for every value of the atoms. (`<` compares the numbers at hand.)

PyTorch's SymInt does the same with recorded guards; here every shape is lowered again instead, so that a decision taken
by numbers costs another kernel, never a wrong result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, SupportsIndex, TypeAlias


class Atom(NamedTuple):
    """A number that a kernel gets as a parameter; `low` is the least it can be. A rounded quotient has the polynomials
    that are divided."""

    name: str
    value: int
    low: int = 1
    quotient: tuple[Terms, Terms] | None = None


Monomial: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]
"""A polynomial: monomials with their coefficients, sorted, none of them 0."""

TYPICAL = 64
"""See `typical`."""
_UNBOUNDED = -(1 << 62)


class SymbolicDim(int):
    """A number given by a polynomial that is not constant."""

    terms: Terms
    _hash: int

    def __new__(cls, terms: Terms) -> SymbolicDim:
        self = super().__new__(cls, sum(c * math.prod(a.value for a in m) for m, c in terms))
        self.terms = terms
        self._hash = hash(terms)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicDim) and self._hash == other._hash and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: int) -> int:
        return _sum(self, other, 1) if isinstance(other, int) else NotImplemented

    def __radd__(self, other: int) -> int:
        return _sum(self, other, 1) if isinstance(other, int) else NotImplemented

    def __sub__(self, other: int) -> int:
        return _sum(self, other, -1) if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return _sum(_product(self, -1), other, 1) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: int) -> int:
        return _product(self, other) if isinstance(other, int) else NotImplemented

    def __rmul__(self, other: int) -> int:
        return _product(self, other) if isinstance(other, int) else NotImplemented

    def __neg__(self) -> int:
        return _product(self, -1)

    def __floordiv__(self, other: int) -> int:
        return _quotient(self, other) if isinstance(other, int) else NotImplemented

    def __rfloordiv__(self, other: int) -> int:
        return _quotient(other, self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: int) -> int:
        return self - self // other * other if isinstance(other, int) else NotImplemented

    def __rmod__(self, other: int) -> int:
        return other - other // self * self if isinstance(other, int) else NotImplemented

    def __str__(self) -> str:
        return _text(self.terms)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __round__(self, ndigits: SupportsIndex | None = None) -> int:
        return self


def size(name: str, value: int, multiple: int = 1) -> int:
    """The dimension `name`, known to be a multiple of `multiple`."""
    text = name if multiple == 1 else f"{name}/{multiple}"
    return _make((((Atom(text, value // multiple),), multiple),))


def atoms(value: int) -> tuple[Atom, ...]:
    """Atoms of a size in the order in which it reads."""
    return tuple(dict.fromkeys(a for m, _ in value.terms for a in m)) if isinstance(value, SymbolicDim) else ()


def ceil_div(a: int, b: int) -> int:
    """The quotient rounded up, for positive numbers."""
    return (a + b - 1) // b


def surely_less(a: int, b: int) -> bool:
    """Whether a < b whatever the atoms are."""
    if not isinstance(a, SymbolicDim) and not isinstance(b, SymbolicDim):
        return a < b
    return _surely_less(a, b)


def divides(divisor: int, a: int) -> bool:
    """Whether a is a multiple of `divisor` whatever the atoms are."""
    if not isinstance(a, SymbolicDim) and not isinstance(divisor, SymbolicDim):
        return a % divisor == 0
    return _divides(divisor, a)


def common_divisor(a: int, b: int) -> int:
    """The largest divisor of both that can be seen in them, not negative; 0 for two zeros."""
    if not isinstance(a, SymbolicDim) and not isinstance(b, SymbolicDim):
        return math.gcd(a, b)
    if a == 0 or b == 0:
        return b if a == 0 else a
    (left, c), (right, d) = _content(_terms(a)), _content(_terms(b))
    return _make(((_common(left, right), math.gcd(c, d)),))


def divisors(a: int, most: int) -> list[int]:
    """Numbers up to `most` that divide a whatever its atoms are, the largest first; none for 0."""
    number = abs(_content(_terms(a))[1]) if isinstance(a, SymbolicDim) else abs(a)
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return [d for d in sorted({*low, *(number // d for d in low)}, reverse=True) if d <= most]


def order(value: int) -> tuple[int, int]:
    """Sorts sizes alike for all values of their atoms: by degree, then by coefficient."""
    if not isinstance(value, SymbolicDim):
        return 0, value
    return max(len(m) for m, _ in value.terms), max(c for _, c in value.terms)


def solve(a: int, b: int) -> tuple[str, int] | None:
    """The dimension that a == b decides, and its value. Of two products of dimensions, those of equal value are taken
    to be one."""
    (left, c), (right, d) = _unlike(a, b) or (((), 0), ((), 1))
    pairs = ((one, other) for one in left for other in right if one.value == other.value and c == d)
    return solve_exactly(a, b) or next(((one.name, _make((((other,), 1),))) for one, other in pairs), None)


def solve_exactly(a: int, b: int) -> tuple[str, int] | None:
    """As solve, where one side is a multiple of a dimension alone: whatever the values are, it is the other side's."""
    sides = _unlike(a, b)
    for (one, k), (other, n) in (sides, sides[::-1]) if sides else ():
        if len(one) == 1 and n % k == 0 and one[0] not in other:
            return one[0].name, _make(((other, n // k),))
    return None


def _unlike(a: int, b: int) -> tuple[tuple[Monomial, int], tuple[Monomial, int]] | None:
    """Two products of dimensions without the dimensions that both have; None if one is no product, or 0."""
    (left, c), (right, d) = (t[0] if len(t := _terms(x)) == 1 else ((), 0) for x in (a, b))
    common = _common(left, right)
    return ((_without(left, common), c), (_without(right, common), d)) if c and d else None


def solve_multiple(a: int, divisor: int) -> tuple[str, int] | None:
    """As solve, for a that has to be a multiple of `divisor`, where that is not seen in it: the dimension is a multiple
    of what is missing. None if it is seen, or cannot be told."""
    if divides(divisor, a):
        return None
    common = common_divisor(a, divisor)
    rest, missing = a // common, divisor // common
    if not isinstance(rest, SymbolicDim) or len(rest.terms) != 1 or len(rest.terms[0][0]) != 1:
        return None
    atom = rest.terms[0][0][0]
    if rest.terms[0][1] != 1 or atom.value % missing or atom in atoms(missing):
        return None
    part = Atom(f"({atom.name})/({missing})", atom.value // int(missing))
    return atom.name, missing * _make((((part,), 1),))


def in_terms_of(value: int, dimensions: Mapping[str, int]) -> int:
    """`value` with dimensions (atoms by name) replaced by what they are."""
    total = 0
    for m, c in _terms(value):
        product = c
        for atom in m:
            product = product * _atom_in_terms_of(atom, dimensions)
        total = total + product
    return total


def _atom_in_terms_of(atom: Atom, dimensions: Mapping[str, int]) -> int:
    if atom.name in dimensions:
        return dimensions[atom.name]
    if atom.quotient is None:
        return _make((((atom,), 1),))
    a, b = (in_terms_of(_make(terms), dimensions) for terms in atom.quotient)
    return a // b


def dimensions_of(value: int) -> tuple[str, ...]:
    """Names of the dimensions that a size is made of, those within quotients too."""
    found: dict[str, None] = {}
    for atom in atoms(value):
        parts = map(_make, atom.quotient or ())
        found |= dict.fromkeys(name for part in parts for name in dimensions_of(part)) or {atom.name: None}
    return tuple(found)


def typical(value: int) -> int:
    """A number that stands for a size in decisions that must not depend on its value (what is computed again, which
    kernels share a launch or memory), or each value would need kernels of its own."""
    if not isinstance(value, SymbolicDim):
        return value
    return int(in_terms_of(value, {atom.name: TYPICAL for atom in atoms(value)}))


def _terms(value: int) -> Terms:
    if isinstance(value, SymbolicDim):
        return value.terms
    return (((), int(value)),) if value else ()


def _make(terms: Terms) -> int:
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    return SymbolicDim(terms)


def _sorted(total: dict[Monomial, int]) -> Terms:
    return tuple(sorted((m, c) for m, c in total.items() if c))


@lru_cache(maxsize=1 << 14)
def _sum(a: int, b: int, sign: int) -> int:
    return _make(_add(_terms(a), _terms(b), sign))


@lru_cache(maxsize=1 << 14)
def _product(a: int, b: int) -> int:
    return _make(_multiply(_terms(a), _terms(b)))


@lru_cache(maxsize=1 << 14)
def _quotient(a: int, b: int) -> int:
    return _floor_divide(_terms(a), _terms(b))


@lru_cache(maxsize=1 << 14)
def _surely_less(a: int, b: int) -> bool:
    return _never_negative(_add(_add(_terms(b), _terms(a), -1), _terms(1), -1))


@lru_cache(maxsize=1 << 14)
def _divides(divisor: int, a: int) -> bool:
    return not _divide(_terms(a), _terms(divisor))[1]


def _add(a: Terms, b: Terms, sign: int) -> Terms:
    total = dict(a)
    for m, c in b:
        total[m] = total.get(m, 0) + sign * c
    return _sorted(total)


def _multiply(a: Terms, b: Terms) -> Terms:
    total: dict[Monomial, int] = {}
    for m, c in a:
        for n, d in b:
            product = tuple(sorted((*m, *n)))
            total[product] = total.get(product, 0) + c * d
    return _sorted(total)


def _without(m: Monomial, part: Monomial) -> Monomial:
    rest = list(m)
    for atom in part:
        rest.remove(atom)
    return tuple(rest)


def _common(m: Monomial, n: Monomial) -> Monomial:
    rest, common = list(n), list[Atom]()
    for atom in m:
        if atom in rest:
            rest.remove(atom)
            common.append(atom)
    return tuple(common)


def _content(terms: Terms) -> tuple[Monomial, int]:
    """The largest monomial that divides every term."""
    common = terms[0][0]
    for m, _ in terms[1:]:
        common = _common(common, m)
    return common, math.gcd(*(c for _, c in terms))


def _divide(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """Quotient and rest, a == quotient * b + rest: term by term for a monomial b, else exact or not at all."""
    quotient: dict[Monomial, int] = {}
    if len(b) == 1:
        (n, d), rest = b[0], dict[Monomial, int]()
        for m, c in a:
            held = len(_common(m, n)) == len(n)
            if held and c // d:
                quotient[_without(m, n)] = c // d
            rest[m] = c % d if held else c
        return _sorted(quotient), _sorted(rest)
    left = a
    while left:
        (m, c), (n, d) = (max(p, key=lambda t: (len(t[0]), t[0])) for p in (left, b))
        if len(_common(m, n)) < len(n) or c % d or len(quotient) > len(a):
            return (), a
        step = ((_without(m, n), c // d),)
        quotient[step[0][0]] = c // d
        left = _add(left, _multiply(step, b), -1)
    return _sorted(quotient), ()


def _floor_divide(a: Terms, b: Terms) -> int:
    quotient, rest = _divide(a, b)
    low = 0
    for shift in (0, -1):  # shift * b <= rest < (shift + 1) * b
        least = _multiply(b, _terms(shift))
        if _never_negative(_add(rest, least, -1)) and _never_negative(
                _add(_add(_add(least, b, 1), rest, -1), _terms(1), -1)):
            return _make(_add(quotient, _terms(shift), 1))
    if _never_negative(_add(rest, b, -1)):
        low = 1
    elif not _never_negative(rest):
        low = _UNBOUNDED
    divisor = int(_make(b))
    value = int(_make(rest)) // divisor if divisor else 0  # of an empty tensor: nothing is indexed by it
    atom = Atom(f"({_text(rest)})//({_text(b)})", value, low, (rest, b))
    return _make(_add(quotient, (((atom,), 1),), 1))


@lru_cache(maxsize=1 << 14)
def _never_negative(terms: Terms) -> bool:
    """Whether no value of the atoms makes the polynomial negative: with each atom written as its least value plus
    something, no coefficient is negative."""
    total: dict[Monomial, int] = {}
    for m, c in terms:
        parts: dict[Monomial, int] = {(): c}
        for atom in m:
            grown: dict[Monomial, int] = {}
            for n, d in parts.items():
                grown[n] = grown.get(n, 0) + d * atom.low
                more = tuple(sorted((*n, atom)))
                grown[more] = grown.get(more, 0) + d
            parts = grown
        for n, d in parts.items():
            total[n] = total.get(n, 0) + d
    return all(d >= 0 for d in total.values())


@lru_cache(maxsize=1 << 14)
def _text(terms: Terms) -> str:
    parts = ["*".join([*(a.name for a in m), *([str(c)] if c != 1 or not m else [])]) for m, c in terms]
    return "+".join(parts) or "0"
