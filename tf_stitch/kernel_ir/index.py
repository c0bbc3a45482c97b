"""Index arithmetic in a canonical form, so that equal indices compare equal.

An Index is a sum of integer multiples of atoms plus a constant. Atoms are loop variables, floor divisions and
remainders by positive constants. Every atom has known bounds, which is what lets a reshape of a reshape cancel:
`((r*4 + c) // 4) * 4 + (r*4 + c) % 4` becomes `r*4 + c`. Where constants are symbolic (symbolic_dims), only what holds
for every size is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from tf_stitch.ir.symbolic_dims import SymbolicDim, common_divisor, divides, order, surely_less


@dataclass(frozen=True)
class Var:
    """An integer variable of the kernel with 0 <= value < extent."""

    name: str
    extent: int

    def __hash__(self) -> int:
        return hash((self.name, self.extent))

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, max(self.extent - 1, 0)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FloorDiv:
    """base // divisor, base >= 0."""

    base: Index
    divisor: int

    @cached_property
    def _hash(self) -> int:
        return hash((self.base, self.divisor, 0))

    def __hash__(self) -> int:
        return self._hash

    @property
    def bounds(self) -> tuple[int, int]:
        low, high = self.base.bounds
        return low // self.divisor, high // self.divisor

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return f"({self.base})//{self.divisor}"


@dataclass(frozen=True)
class Mod:
    """base % divisor, base >= 0."""

    base: Index
    divisor: int

    @cached_property
    def _hash(self) -> int:
        return hash((self.base, self.divisor, 1))

    def __hash__(self) -> int:
        return self._hash

    @property
    def bounds(self) -> tuple[int, int]:
        high = self.base.bounds[1]
        return 0, high if surely_less(high, self.divisor) else self.divisor - 1

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return f"({self.base})%{self.divisor}"


Atom: TypeAlias = Var | FloorDiv | Mod


@dataclass(frozen=True)
class Index:
    """sum(coefficient * atom) + offset; terms are sorted by the atom's text and no coefficient is 0."""

    terms: tuple[tuple[Atom, int], ...] = ()
    offset: int = 0

    @cached_property
    def _hash(self) -> int:
        return hash((self.terms, self.offset))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value, both reachable bounds of the sum of parts (not always tight)."""
        return _bounds(self)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of every variable it depends on."""
        return frozenset(v.name for v in self.variables())

    @property
    def constant(self) -> int | None:
        return None if self.terms else self.offset

    def variables(self) -> frozenset[Var]:
        """Every variable it depends on."""
        return self._variables

    @cached_property
    def _variables(self) -> frozenset[Var]:
        return _variables(self)

    def value(self, values: Mapping[Var, int]) -> int:
        """The index with variables replaced; those not given are 0."""
        total = self.offset
        for atom, c in self.terms:
            if isinstance(atom, Var):
                total += c * values.get(atom, 0)
            else:
                base = atom.base.value(values)
                total += c * (base // atom.divisor if isinstance(atom, FloorDiv) else base % atom.divisor)
        return total

    def coefficient(self, var: Var) -> int | None:
        """Factor of `var`; None if it also occurs inside a division or remainder."""
        factor = 0
        for atom, coefficient in self.terms:
            if atom == var:
                factor = coefficient
            elif isinstance(atom, FloorDiv | Mod) and var in atom.base.variables():
                return None
        return factor

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.offset + other)
        return _collect([*self.terms, *other.terms], self.offset + other.offset)

    def __sub__(self, other: Index | int) -> Index:
        return self + (other * -1 if isinstance(other, Index) else -other)

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        return constant(0) if factor == 0 else Index(tuple([(a, c * factor) for a, c in self.terms]),
                                                     self.offset * factor)

    def __floordiv__(self, divisor: int) -> Index:
        return _floordiv(self, divisor)

    def __mod__(self, divisor: int) -> Index:
        return _mod(self, divisor)

    def __str__(self) -> str:
        parts = [str(a) if c == 1 else f"{a}*{c}" for a, c in self.terms]
        return " + ".join([*parts, *([str(self.offset)] if self.offset or not parts else [])])


def constant(value: int) -> Index:
    return Index((), value)


def var(variable: Var) -> Index:
    """A variable as an index; one that can only be 0 is the constant."""
    return constant(0) if _is_one(variable.extent) else Index(((variable, 1),))


def linearize(index: Sequence[Index], dims: Sequence[int]) -> Index:
    """Row-major offset of a multi-index in an array of `dims`."""
    terms: list[tuple[Atom, int]] = []
    offset, stride = 0, 1
    for i, dim in zip(reversed(index), reversed(dims), strict=True):
        terms += [(a, c * stride) for a, c in i.terms]
        offset += i.offset * stride
        stride *= dim
    return _collect(terms, offset)


def delinearize(flat: Index, dims: Sequence[int]) -> tuple[Index, ...]:
    """Multi-index of a row-major offset, which lies inside the array."""
    out: list[Index] = []
    inner = math.prod(max(d, 1) for d in dims)
    outermost = True
    for dim in dims:
        inner //= max(dim, 1)
        if _is_one(dim):
            out.append(constant(0))
            continue
        part = flat // inner if inner != 1 else flat
        out.append(part if outermost or surely_less(part.bounds[1], dim) else part % dim)
        outermost = False
    return tuple(out)


def _is_one(extent: int) -> bool:
    return not isinstance(extent, SymbolicDim) and extent <= 1


@lru_cache(maxsize=1 << 16)
def _bounds(index: Index) -> tuple[int, int]:
    low = high = index.offset
    for atom, c in index.terms:
        ends = [end * c for end in atom.bounds]
        least, most = ends if c >= 0 else reversed(ends)  # by the factor's sign: ends may agree at hand alone
        low, high = low + least, high + most
    return low, high


@lru_cache(maxsize=1 << 16)
def reach(index: Index) -> int:
    """What no number exceeds, in either direction, from which an index is worked out."""
    total, inside = abs(int(index.offset)), 0
    for atom, c in index.terms:
        total += abs(int(c)) * max(map(abs, map(int, atom.bounds)))
        if not isinstance(atom, Var):
            inside = max(inside, reach(atom.base))
    return max(total, inside)


@lru_cache(maxsize=1 << 16)
def _variables(index: Index) -> frozenset[Var]:
    found: set[Var] = set()
    for atom, _ in index.terms:
        found |= {atom} if isinstance(atom, Var) else atom.base.variables()
    return frozenset(found)


def forget() -> None:
    """Frees what is kept of indices that were worked with."""
    for kept in (_bounds, reach, _variables, _floordiv, _mod):
        kept.cache_clear()


def _collect(terms: Sequence[tuple[Atom, int]], offset: int) -> Index:
    total: dict[Atom, int] = {}
    for atom, coefficient in terms:
        total[atom] = total.get(atom, 0) + coefficient
    if any(type(atom) is Mod for atom in total):
        offset += _join_divmod(total)
    kept = [(a, c) for a, c in total.items() if c != 0]
    if len(kept) > 1:
        kept.sort(key=lambda t: str(t[0]))
    return Index(tuple(kept), offset)


def _join_divmod(total: dict[Atom, int]) -> int:
    """c*d*(x // d) + c*(x % d) -> c*x, in place, until nothing joins; gives what x adds to the offset."""
    joined, offset = True, 0
    while joined:
        joined = False
        for atom, c in list(total.items()):
            if not isinstance(atom, Mod) or not c:
                continue
            quotient = _floordiv(atom.base, atom.divisor)
            if len(quotient.terms) != 1 or quotient.offset or quotient.terms[0][1] != 1:
                continue
            whole = quotient.terms[0][0]
            if total.get(whole) == c * atom.divisor:
                del total[atom], total[whole]
                offset += c * atom.base.offset
                for inner, k in atom.base.terms:
                    total[inner] = total.get(inner, 0) + c * k
                joined = True
                break
    return offset


def _split(index: Index, divisor: int) -> tuple[Index, Index]:
    """Parts (multiple of divisor, rest)."""
    whole = [(a, c) for a, c in index.terms if divides(divisor, c)]
    rest = [(a, c) for a, c in index.terms if not divides(divisor, c)]
    if not isinstance(index.offset, SymbolicDim) and not isinstance(divisor, SymbolicDim):
        low = index.offset // divisor * divisor
    else:
        low = index.offset if divides(divisor, index.offset) else 0
    return Index(tuple(whole), low), Index(tuple(rest), index.offset - low)


def _shrink(index: Index, divisor: int) -> tuple[Index, int, Index] | None:
    """index == g * reduced + rest with g dividing divisor, 0 <= rest < g: (reduced, g, rest), or None."""
    factors = sorted({common_divisor(c, divisor) for _, c in index.terms}
                     | {common_divisor(index.offset, divisor) or divisor}, key=order, reverse=True)
    for g in factors:
        if g not in (1, divisor):
            whole, rest = _split(index, g)
            low, high = rest.bounds
            if _within(low, high, g) and whole.terms:
                return Index(tuple((a, c // g) for a, c in whole.terms), whole.offset // g), g, rest
    return None


def _within(low: int, high: int, divisor: int) -> bool:
    return surely_less(-1, low) and surely_less(high, divisor)


@lru_cache(maxsize=1 << 16)
def _floordiv(index: Index, divisor: int) -> Index:
    if divisor == 1:
        return index
    whole, rest = _split(index, divisor)
    low, high = rest.bounds
    quotient = Index(tuple((a, c // divisor) for a, c in whole.terms), whole.offset // divisor)
    if _within(low, high, divisor):
        return quotient
    if not surely_less(-1, low):  # keep the base of a division non-negative: it has to be C's division
        quotient, rest = constant(0), index
    shrunk = _shrink(rest, divisor)
    if shrunk:
        reduced, g, _ = shrunk
        return quotient + _floordiv(reduced, divisor // g)
    only = rest.terms[0] if len(rest.terms) == 1 and rest.offset == 0 else None
    if only and only[1] == 1 and isinstance(only[0], FloorDiv):
        inner = only[0]
        return quotient + _floordiv(inner.base, inner.divisor * divisor)
    factor = max((g for _, c in rest.terms if (g := common_divisor(c, divisor)) not in (1, divisor)), key=order,
                 default=0)
    if factor != 0 and surely_less(-1, rest.bounds[0]):
        # In steps, so that the parts of a delinearised index have one form. One that takes nothing out would be undone.
        stepped = _floordiv(rest, factor)
        if stepped.terms != ((FloorDiv(rest, factor), 1),):
            return quotient + _floordiv(stepped, divisor // factor)
    return quotient + Index(((FloorDiv(rest, divisor), 1),))


@lru_cache(maxsize=1 << 16)
def _mod(index: Index, divisor: int) -> Index:
    if divisor == 1:
        return constant(0)
    _, rest = _split(index, divisor)
    low, high = rest.bounds
    if _within(low, high, divisor):
        return rest
    if not surely_less(-1, low):
        rest = index
    shrunk = _shrink(rest, divisor)
    if shrunk:
        reduced, g, remainder = shrunk
        return _mod(reduced, divisor // g) * g + remainder
    only = rest.terms[0] if len(rest.terms) == 1 and rest.offset == 0 else None
    if only and only[1] == 1 and isinstance(only[0], Mod) and divides(divisor, only[0].divisor):
        return _mod(only[0].base, divisor)
    return Index(((Mod(rest, divisor), 1),))
