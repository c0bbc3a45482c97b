"""Sums of many terms as sums of sums, so that few additions follow each other.

A loop that adds too many terms to an accumulator becomes two: the inner one adds some of them to an accumulator of its
own, which the outer one adds to the other. That again becomes two if it is long. A thread's terms come in the same
order, at the same places; a running sum is the outer one and the inner one together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import ceil_div, divides, divisors
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, var
from tf_stitch.kernel_ir.roles import Role, held, names_of
from tf_stitch.kernel_ir.sum_chains import CHAIN, additions, float_sums, longest, unbounded_sums
from tf_stitch.kernel_ir.vectorised_loops import sum_lanes
from tf_stitch.kernel_ir.walk import arrays_touched, evaluated, expanded, rewritten, statements

VECTOR_CHAIN = 128
"""Additions of each lane of a vector that may follow each other: vectors, and what is left of them, are summed across
after as many. (16 log2 n of 1024 terms are 160.)"""
UNROLLED = 16
"""Elements of a thread's array up to which a loop over them is unrolled, and they stay in registers. Of others the
outer sums are in memory of the thread, and registers are for the inner ones."""


def bounded_sums(program: k.Program) -> k.Program:
    """The program with the chains of all its sums of floats bounded; the same where they are."""
    long = unbounded_sums(program)
    if not long:
        return program
    split = _Split(program, long)
    return replace(program, body=expanded(program.body, split.of))


@dataclass(frozen=True)
class _Part:
    """What a loop adds to, and its like of the inner loop."""

    whole: k.Accumulator | k.Array
    own: k.Accumulator | k.Array
    combine: OpKind


class _Split:
    def __init__(self, program: k.Program, long: set[str]) -> None:
        self._on_cpu, self._long, self._numbers = program.threads == 1, set(long), count()
        self._sums = float_sums(program.body)
        self._accumulators = {s.name: s for s in statements(program.body) if isinstance(s, k.Accumulator)}

    def of(self, stmt: k.Stmt) -> Sequence[k.Stmt]:
        """A statement; of a loop that adds too much, the outer and the inner one."""
        return (self._in_levels(stmt, stmt.var.name, 1),) if isinstance(stmt, k.For) else (stmt,)

    def _in_levels(self, stmt: k.For, name: str, level: int) -> k.For:
        long = {name: n for name, n in additions(stmt, self._sums).items() if name in self._long}
        if not long or stmt.loop is k.Loop.UNROLL:
            return stmt
        lanes = min(sum_lanes(stmt, self._sums[name].dtype.compute) for name in long)
        most = max((VECTOR_CHAIN * lanes if lanes > 1 else CHAIN) // max(long.values()), 1)
        chunk = _without_a_rest(most, stmt.var.extent)
        parts = self._parts(stmt, tuple(long))
        if longest(stmt.var.extent) <= chunk or parts is None or (
                stmt.limit is not None and not divides(chunk, stmt.var.extent)):
            return stmt
        outer = Var(f"{name}_level{level}", ceil_div(stmt.var.extent, chunk))
        return self._in_levels(self._outer(stmt, outer, chunk, parts), name, level + 1)

    def _parts(self, loop: k.For, long: Sequence[str]) -> list[_Part] | None:
        """Of what the loop adds to; None if it does something else with it, too."""
        combines = dict.fromkeys(long, OpKind.SUM)
        if loop.loop is k.Loop.SIMD:  # vectors of other accumulators end with the inner loop, too
            combines |= {s.name: s.combine for s in loop.body if isinstance(s, k.Update)}
        wholes = [self._sums.get(name) or self._accumulators[name] for name in combines]
        if not all(_only_combined(loop, whole, combines[whole.name]) for whole in wholes):
            return None
        return [_Part(whole, self._own(whole), combines[whole.name]) for whole in wholes]

    def _own(self, whole: k.Accumulator | k.Array) -> k.Accumulator | k.Array:
        name = f"{whole.name}_part{next(self._numbers)}"
        own: k.Accumulator | k.Array = replace(whole, name=name, note="")
        if isinstance(own, k.Array):
            own = replace(own, init=0, offset=None)
        if whole.name in self._sums:
            self._sums[name] = own
        if whole.name in self._long:
            self._long.add(name)
        return own

    def _outer(self, loop: k.For, outer: Var, chunk: int, parts: Sequence[_Part]) -> k.For:
        """A loop over `outer`, each of whose iterations makes `chunk` of the loop's."""
        extent, inner = loop.var.extent, Var(f"{loop.var.name}_within", chunk)
        end = loop.limit if loop.limit is not None else None if divides(chunk, extent) else constant(extent)
        first, body = var(outer) * chunk, loop.body
        for part in parts:
            body = rewritten(body, partial(_adding_to, part))
        within = k.For(inner, (k.LetIndex(loop.var, first + var(inner), None), *body), loop.loop,
                       None if end is None else end - first, loop.together)
        return k.For(outer, (*(part.own for part in parts), within, *map(self._added, parts)), together=1)

    def _added(self, part: _Part) -> k.Stmt:
        """The inner loop's sum is added to the outer one."""
        own, whole = part.own, part.whole
        if isinstance(own, k.Accumulator):
            return k.Update(whole.name, part.combine, k.Local(own.name, own.dtype))
        element = Var("element", own.size)
        add = k.SetElement(whole.name, var(element), k.Element(own.name, var(element), own.dtype), part.combine)
        loop = k.Loop.SIMD if self._on_cpu else k.Loop.UNROLL if own.size <= UNROLLED else k.Loop.SERIAL
        return k.For(element, (add,), loop, together=1)


def _without_a_rest(most: int, extent: int) -> int:
    """The most iterations, from half of `most` on, of which a loop's are a multiple: the inner loop then asks for no
    limit. `most` where there are none."""
    return next((chunk for chunk in divisors(extent, most) if chunk > most // 2), most)


def _only_combined(loop: k.For, whole: k.Accumulator | k.Array, combine: OpKind) -> bool:
    """Whether a loop does nothing but combine values with a thread's accumulator, or elements of its array; it may read
    a running sum."""
    name = whole.name
    if isinstance(whole, k.Array):
        return whole.space is k.Space.LOCAL and not whole.packed and all(
            name not in arrays_touched(s) or (isinstance(s, k.SetElement) and s.array == name and s.combine is combine
                                              and list(arrays_touched(s)).count(name) == 1)
            for s in statements(loop.body))
    for stmt in statements(loop.body):
        if isinstance(stmt, k.Update) and stmt.name == name and stmt.combine is not combine:
            return False
        if not isinstance(stmt, k.Update) and name in held(stmt, Role.SETS):
            return False
        if isinstance(stmt, k.AllReduce) and any(name == member for member, _ in stmt.members):
            return False
        if combine is not OpKind.SUM and any(isinstance(e, k.Local) and e.name == name for e in evaluated(stmt)):
            return False
    return True


def _adding_to(part: _Part, stmt: k.Stmt) -> k.Stmt:
    """A statement that adds to the part, and reads the whole with it."""
    whole, own = part.whole.name, part.own.name
    if isinstance(stmt, k.SetElement) and stmt.array == whole:
        stmt = replace(stmt, array=own)
    elif isinstance(stmt, k.Update) and stmt.name == whole:
        stmt = replace(stmt, name=own)
    read: dict[str, Any] = {name: _read(part, value) for name in names_of(stmt, Role.OPERAND)
                            if (value := getattr(stmt, name)) is not None and not isinstance(value, Index)}
    return replace(stmt, **read) if read else stmt


def _read(part: _Part, expr: k.Expr) -> k.Expr:
    if isinstance(expr, k.Apply):
        return replace(expr, args=tuple(_read(part, arg) for arg in expr.args))
    if not isinstance(expr, k.Local) or expr.name != part.whole.name:
        return expr
    return k.Apply(OpKind.ADD, (expr, k.Local(part.own.name, expr.dtype)), expr.dtype)
