"""How many additions of a sum wait for each other: the length of its chain bounds what it loses by rounding.

A sum of terms of one sign, each of which passes at most d additions, is off by at most d u of itself, where u = eps / 2
is the unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). Pairwise summation has
d = log2 n. Kernels are allowed 16 log2 n, which is 8 eps log2 n. The bound holds of sums of sums: chains add up, and so
do the logarithms of their numbers of terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, dimensions_of, in_terms_of
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.vectorised_loops import sum_lanes
from tf_stitch.kernel_ir.walk import statements

CHAIN = 104
"""Additions that may follow each other without a second level: n - 1 <= 16 log2 n up to 108, and four levels of 104
keep below 16 log2 n for every n."""
LONGEST = CHAIN ** 4
"""Terms, 1.2e8, up to which the chain of a sum whose size changes is bounded."""


@dataclass(frozen=True)
class Chain:
    """The chain of a sum: the additions that its worst term passes, and how many terms it has."""

    depth: int = 0
    terms: int = 1

    @property
    def bounded(self) -> bool:
        """Whether its error is that of pairwise summation, times 16."""
        return self.depth <= 16 * math.log2(max(self.terms, 2))


@dataclass(frozen=True)
class _Effect:
    """What statements do to a sum.

    Attributes:
        kept: what was there before is still part of it.
        additions: that what was there before passes.
        depth: that the worst of the new terms passes, those in parts of it included.
        terms: new ones.
        along: variables that say which element of an array it is.
    """

    kept: bool = True
    additions: int = 0
    depth: int = 0
    terms: int = 0
    along: frozenset[str] = frozenset()

    def then(self, after: _Effect) -> _Effect:
        if not after.kept:
            return after
        return _Effect(self.kept, self.additions + after.additions, max(self.depth + after.additions, after.depth),
                       self.terms + after.terms, self.along | after.along)

    def times(self, count: int, lanes: int) -> _Effect:
        """Repeated, by this many neighbouring lanes; what they have is added up, and so is what is left of vectors."""
        if not self.kept:
            return self
        turns = -(-count // lanes)
        across = min(2 * lanes, count - turns) if lanes > 1 else 0
        return replace(self, additions=self.additions * turns + across, terms=self.terms * count,
                       depth=self.depth + self.additions * max(turns - 1, 0) + across)

    def beside(self, other: _Effect) -> _Effect:
        """The effect of two branches."""
        return _Effect(self.kept or other.kept, max(self.additions, other.additions), max(self.depth, other.depth),
                       max(self.terms, other.terms), self.along | other.along)


def longest(extent: int) -> int:
    """Iterations of a loop whose extent changes, LONGEST at most."""
    if not isinstance(extent, SymbolicDim):
        return extent
    return min(int(in_terms_of(extent, dict.fromkeys(dimensions_of(extent), LONGEST))), LONGEST)


def sum_chains(program: k.Program) -> dict[str, Chain]:
    """The chain of each sum of floats: of accumulators, and of arrays, whose elements have one each."""
    sums = float_sums(program.body)
    if not sums:
        return {}
    chains = _Chains(sums)
    for phase in program.phases():
        chains.body(phase.body)
    return {name: chain for name, chain in chains.found.items() if chain.depth}


def float_sums(body: Sequence[k.Stmt]) -> dict[str, k.Accumulator | k.Array]:
    """What is declared that can be the sum of floats, by name."""
    return {s.name: s for s in statements(body) if isinstance(s, k.Accumulator | k.Array) and s.dtype.is_float}


def additions(loop: k.For, declared: Mapping[str, k.Accumulator | k.Array]) -> dict[str, int]:
    """Accumulators and arrays that a loop adds to which are declared before it -> how often it does in an iteration.
    Arrays of which each iteration has elements of its own are not among them."""
    found: dict[str, int] = {}
    for (name, _), effect in _Chains(declared).body(loop.body).items():
        if effect.kept and effect.additions and loop.var.name not in effect.along:
            found[name] = max(found.get(name, 0), effect.additions)
    return found


def unbounded_sums(program: k.Program) -> set[str]:
    """Names of accumulators and arrays whose chain is too long."""
    return {name for name, chain in sum_chains(program).items() if not chain.bounded}


_rules: ByType[None] = ByType("chains of sums", otherwise=lambda *_: None)
"""What a kind of statement does to sums."""


_Place: TypeAlias = tuple[str, int]
"""An accumulator, or elements of an array by the constant part of their index: others are other elements."""


@dataclass
class _Scope:
    """A body: what its statements did to sums, and which of them begin in it."""

    effects: dict[_Place, _Effect] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)


class _Chains:
    """Walks a program once; the effect of a loop is that of its body, repeated."""

    def __init__(self, declared: Mapping[str, k.Accumulator | k.Array]) -> None:
        self.found: dict[str, Chain] = {}
        self._sums = declared
        self._scopes: list[_Scope] = []
        self._indices: dict[str, frozenset[str]] = {}  # of a declared index: variables that it is computed from

    def body(self, body: Sequence[k.Stmt]) -> dict[_Place, _Effect]:
        """What statements do to the sums that were there before. Those that begin among them are `found`."""
        self._scopes.append(_Scope())
        for stmt in body:
            _rules.of(stmt)(self, stmt)
        for name in self._scopes[-1].own & self._sums.keys():
            self.found[name] = self._state(name)
        scope = self._scopes.pop()
        return {place: effect for place, effect in scope.effects.items() if place[0] not in scope.own}

    def _add(self, place: _Place, effect: _Effect) -> None:
        effects = self._scopes[-1].effects
        effects[place] = effects.get(place, _Effect()).then(effect)

    def _state(self, name: str) -> Chain:
        """What a scalar, or the worst element of an array, is the sum of."""
        states: dict[_Place, _Effect] = {}
        for scope in self._scopes:
            for place, effect in scope.effects.items():
                if place[0] == name:
                    states[place] = states.get(place, _Effect()).then(effect)
        worst = max(states.values(), key=lambda effect: effect.depth, default=_Effect())
        return Chain(worst.depth, max(worst.terms, 1))

    def _value(self, expr: k.Expr) -> Chain:
        """What a value that is added, or set, is the sum of."""
        if isinstance(expr, k.Local):
            return self._state(expr.name)
        if isinstance(expr, k.Element):
            return self._state(expr.array)
        if isinstance(expr, k.Apply) and expr.kind in _SCALED:
            return max(map(self._value, expr.args), key=lambda chain: chain.depth)
        return Chain()

    def _sets(self, place: _Place, value: k.Expr, along: frozenset[str] = frozenset()) -> None:
        chain = self._value(value)
        self._add(place, _Effect(False, 0, chain.depth, chain.terms, along))

    def _adds(self, place: _Place, value: k.Expr, combine: OpKind, along: frozenset[str] = frozenset()) -> None:
        chain = self._value(value)
        if combine is OpKind.SUM:
            self._add(place, _Effect(True, 1, chain.depth + 1, chain.terms, along))

    def _along(self, index: Index) -> frozenset[str]:
        names = {v.name for v in index.variables()}
        return frozenset(names).union(*(self._indices.get(name, ()) for name in names))

    @_rules(k.Accumulator, k.Array)
    def _declared(self, stmt: k.Accumulator | k.Array) -> None:
        scope = self._scopes[-1]
        scope.own.add(stmt.name)
        scope.effects = {place: effect for place, effect in scope.effects.items() if place[0] != stmt.name}

    @_rules(k.Let)
    def _let(self, stmt: k.Let) -> None:
        self._scopes[-1].own.add(stmt.name)
        self._sets((stmt.name, 0), stmt.value)

    @_rules(k.LetIndex)
    def _let_index(self, stmt: k.LetIndex) -> None:
        source = stmt.source
        self._indices[stmt.var.name] = self._along(source) if isinstance(source, Index) else frozenset()

    @_rules(k.Assign)
    def _assign(self, stmt: k.Assign) -> None:
        self._sets((stmt.name, 0), stmt.value)

    @_rules(k.Update)
    def _update(self, stmt: k.Update) -> None:
        self._adds((stmt.name, 0), stmt.value, stmt.combine)

    @_rules(k.SetElement)
    def _set_element(self, stmt: k.SetElement) -> None:
        place, along = (stmt.array, stmt.index.offset), self._along(stmt.index)
        if stmt.combine is None:
            self._sets(place, stmt.value, along)
        else:
            self._adds(place, stmt.value, stmt.combine, along)

    @_rules(k.AllReduce)
    def _all_reduce(self, stmt: k.AllReduce) -> None:
        """A tree."""
        for name in (name for name, kind in stmt.members if kind is OpKind.SUM):
            chain = self._state(name)
            levels = math.ceil(math.log2(stmt.width))
            self._add((name, 0), _Effect(False, 0, chain.depth + levels, chain.terms * stmt.width))

    @_rules(k.For)
    def _for(self, stmt: k.For) -> None:
        count = longest(stmt.var.extent)
        for place, effect in self.body(stmt.body).items():
            apart = stmt.var.name in effect.along  # each iteration has elements of its own
            self._add(place, effect if apart else effect.times(count, self._lanes(stmt, place[0])))

    def _lanes(self, loop: k.For, name: str) -> int:
        """Those that add to one accumulator at once; elements of arrays are added to one after the other."""
        declared = self._sums.get(name)
        return sum_lanes(loop, declared.dtype.compute) if isinstance(declared, k.Accumulator) else 1

    @_rules(k.If)
    def _if(self, stmt: k.If) -> None:
        then, other = self.body(stmt.body), self.body(stmt.orelse)
        for place in {**then, **other}:
            self._add(place, then.get(place, _Effect()).beside(other.get(place, _Effect())))


_SCALED = (OpKind.MUL, OpKind.CAST, OpKind.SELECT)
"""Ops whose value is as exact as their operand's sum, in the main."""
