"""C source of kernels for CPUs: a task of TensorFlow's thread pool is a block, inner loops are left to the compiler
to vectorise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tf_stitch.emit.c_family import CFamily, Lines, combination
from tf_stitch.emit.comments import after
from tf_stitch.emit.rendered import SELF, Rendered, named, parts_of
from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import placed_bytes
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.cost import INLINE_CYCLES
from tf_stitch.kernel_ir.index import FloorDiv, Mod, Var
from tf_stitch.kernel_ir.moved_values import moved_values
from tf_stitch.kernel_ir.walk import arrays, evaluated, statements

CACHE_LINE = 64
"""Bytes that a prefetch brings."""

MULTIPLY = "tfs_multiply("
"""Of cpu_matmul.h."""

_CLAUSE = {OpKind.SUM: "+", OpKind.PROD: "*", OpKind.MAX: "max", OpKind.MIN: "min", OpKind.ANY: "|", OpKind.ALL: "&"}


def cpu_launches(programs: Sequence[tuple[str, k.Program]]) -> list[Rendered]:
    """A program of name n is `int n(const tfs_env*, void* const* args)`, args as its parameters."""
    made = []
    for name, program in programs:
        emitter = _Cpu(program)
        made.append(Rendered(name, {name: "\n".join((*emitter.head(), *emitter.function(name))) + "\n"}, ()))
    return made


def emit_cpu(programs: Sequence[tuple[str, k.Program]]) -> str:
    """One C file of `cpu_launches`."""
    return join_cpu(parts_of(cpu_launches(programs)))


def render_cpu(program: k.Program) -> Rendered:
    """The kernel of a program whose sizes are parameters: args end with a pointer to them (int64) if there are any."""
    emitter = _Cpu(program)
    name, text = named("kernel", (*emitter.head(), *emitter.function(SELF)))
    return Rendered(name, {name: text}, tuple(a.value for a in emitter.sizes))


def join_cpu(parts: Mapping[str, str]) -> str:
    """A file of rendered functions."""
    headers = ['#include "cpu_math.h"']
    if any(MULTIPLY in text for text in parts.values()):
        headers.append('#include "cpu_matmul.h"')
    return "\n".join([*headers, *parts.values()])


@dataclass
class _Invariants:
    """A loop that is being written.

    Attributes:
        inside: what changes in it.
        before: quotient that does not -> its name, to be written before the loop.
    """

    inside: set[Var]
    before: dict[str, str] = field(default_factory=dict)


def _chooses(body: Sequence[k.Stmt]) -> bool:
    """Whether there are branches, or values that an index decides about."""
    return any(isinstance(stmt, k.If) or any(isinstance(e, k.InRange) for e in evaluated(stmt))
               for stmt in statements(body))


class _Cpu(CFamily):
    rules = ByType("a CPU, a block of which has one thread,", CFamily.rules)

    index_type = "int64_t"

    def __init__(self, program: k.Program) -> None:
        super().__init__(program)
        self._nan_flags: set[str] = set()
        self._loop: _Invariants | None = None
        self._quotients = itertools.count()
        self._moved = moved_values(program.body, self.dtype_of)

    def function(self, name: str) -> Lines:
        p = self.program
        if p.threads != 1:
            raise VerifyError("a CPU block has one thread")
        body, grid, cost = list(self.block(p.body)), self.size(p.grid), self.size(p.cost)
        sizes = [f"  const int64_t {n} = ((const int64_t*)args[{len(p.parameters)}])[{i}];"
                 for i, n in enumerate(self.sizes.values())]
        yield f"static void {name}_range(void* opaque, int64_t begin, int64_t end) {{"
        yield "  struct tfs_call* call = (struct tfs_call*)opaque;"
        for i, b in enumerate(p.parameters):
            const = "const " if b.mode is k.Mode.READ else ""
            restrict = "" if b.mode is k.Mode.UPDATE or b.shared else "restrict "
            pointer = f"{const}{self.storage[b.dtype]}*"
            yield f"  {pointer} {restrict}{b.name} = ({pointer})call->args[{i}];"
        if stack := placed_bytes(arrays(p.body)):
            yield f"  unsigned char stack[{stack}] __attribute__((aligned(64)));"
        for line in self.constants("static const", "_values"):
            yield "  " + line
        for b in p.buffers:
            if b.constant is not None:
                # gcc 12 copies a table that ends in zeros wrongly with AVX-512 (it takes {1, 1, 1, 0} for a
                # broadcast of 1) unless it is kept from knowing the values.
                yield f"  const {self.storage[b.dtype]}* {b.name} = {b.name}_values;"
                yield f'  __asm__("" : "+r"({b.name}));'
        yield from (line.replace("args[", "call->args[") for line in sizes)
        # gcc 12 does not vectorise reductions in a loop over blocks that their addresses do not depend on.
        single = "  { const int64_t block = begin; (void)end;"
        if p.grid != 1 and _chooses(p.body):
            # From AVX2 on gcc 12 vectorises a loop over blocks wrongly where a branch depends on the block (rows of
            # few columns, put one behind the other or padded): it must not know that blocks follow each other.
            yield "  for (int64_t next = begin; next < end; ++next) {"
            yield "    int64_t block = next;"
            yield '    __asm__("" : "+r"(block));'
        else:
            yield single if p.grid == 1 else "  for (int64_t block = begin; block < end; ++block) {"
        for line in body:
            yield "  " + line
        yield "  }"
        yield "  (void)call;"
        yield "}"
        yield f"int {name}(const tfs_env* env, void* const* args) {{"
        yield "  struct tfs_call call = {args, 0};"
        yield from sizes
        in_line = f"  (void)env; {name}_range(&call, 0, {grid});"
        split = f"  env->parallel_for(env->impl, {grid}, {cost}, {name}_range, &call);"
        if isinstance(p.grid, SymbolicDim) or isinstance(p.cost, SymbolicDim):
            yield f"  if ({grid} == 1 || {grid} * {cost} < {INLINE_CYCLES}) {{{in_line} }}"
            yield f"  else {{{split} }}"
        else:
            yield in_line if p.grid == 1 or p.grid * p.cost < INLINE_CYCLES else split
        yield "  return call.failed;"
        yield "}"

    def statement(self, stmt: k.Stmt) -> Lines:
        """As CFamily. Halves that are only moved stay as they lie in memory."""
        moved = self._moved.scalars.get(getattr(stmt, "name", ""))
        if isinstance(stmt, k.Let) and moved:
            value = self._stored(stmt.value, moved)
            yield after(f"const {self.storage[moved]} {stmt.name} = {value};", self.note(stmt.note))
        elif isinstance(stmt, k.Accumulator) and moved:
            first = self.stored_literal(stmt.init, moved)
            yield after(f"{self.storage[moved]} {stmt.name} = {first};", self.note(stmt.note))
        elif isinstance(stmt, k.Assign) and moved:
            yield f"{stmt.name} = {self._stored(stmt.value, moved)};"
        elif isinstance(stmt, k.Store) and self._moved.has(stmt.value, self.dtype_of[stmt.buffer]):
            yield f"{stmt.buffer}[{self.index(stmt.index)}] = {self._stored(stmt.value, self.dtype_of[stmt.buffer])};"
        else:
            yield from super().statement(stmt)

    def _stored(self, value: k.Expr, dtype: DType) -> str:
        """A value that is only moved, as it lies in memory."""
        if isinstance(value, k.Apply):
            condition, *choices = value.args
            yes, no = (self._stored(choice, dtype) for choice in choices)
            return f"({self.expr(condition)} ? {yes} : {no})"
        if isinstance(value, k.Literal):
            return self.stored_literal(value.value, dtype)
        return f"{value.buffer}[{self.index(value.index)}]" if isinstance(value, k.Load) else self.expr(value)

    def divide(self, base: str, sign: str, atom: FloorDiv | Mod) -> str:
        if not isinstance(atom.divisor, SymbolicDim) or max(atom.base.bounds[1], atom.divisor) >= 1 << 32:
            return super().divide(base, sign, atom)
        # Half as dear as 64 bits.
        text = f"(int64_t)((uint32_t)({base}) {sign} (uint32_t){self.size(atom.divisor)})"
        if self._loop is None or not self._loop.inside.isdisjoint(atom.base.variables()):
            return text
        return self._loop.before.setdefault(text, f"q{next(self._quotients)}")

    def for_loop(self, stmt: k.For) -> Lines:
        name = stmt.var.name
        flags: list[str] = []
        lines: list[str] = []
        if stmt.loop is k.Loop.SIMD and _vectorises(stmt.body):
            updates = {s.name: s for s in stmt.body if isinstance(s, k.Update)}
            flags = [n for n, s in updates.items()
                     if s.combine in (OpKind.MAX, OpKind.MIN) and s.value.dtype.compute.is_float]
            self._nan_flags |= set(flags)
            yield from (f"int {n}_nan = 0;" for n in flags)
            clauses = [f" reduction({_CLAUSE[s.combine]}:{n})" for n, s in updates.items()]
            clauses += [f" reduction(|:{n}_nan)" for n in flags]
            lines.append(f"#pragma omp simd{''.join(clauses)}")
        elif stmt.loop is k.Loop.UNROLL:
            lines.append(f"#pragma GCC unroll {min(stmt.var.extent, 64)}")
        outer, self._loop = self._loop, _Invariants(
            {stmt.var, *(s.var for s in statements(stmt.body) if isinstance(s, k.LetIndex | k.For))})
        body, invariants, self._loop = list(self.block(stmt.body)), self._loop.before, outer
        # gcc leaves quotients by parameters where they are, since they could trap, and then it does not vectorise.
        lines[:0] = [f"const int64_t {q} = {text};" for text, q in invariants.items()]
        yield from lines
        yield f"for (int64_t {name} = 0; {name} < {self.loop_end(stmt)}; ++{name}) {{"
        yield from body
        yield "}"
        yield from (f"if ({n}_nan) {n} = TFS_NAN;" for n in flags)
        self._nan_flags -= set(flags)

    def update(self, stmt: k.Update) -> Lines:
        if stmt.name in self._nan_flags:  # the vector reduction drops NaN: note it beside
            value, sign = self.expr(stmt.value), ">" if stmt.combine is OpKind.MAX else "<"
            yield f"{stmt.name} = {value} {sign} {stmt.name} ? {value} : {stmt.name};"
            yield f"{stmt.name}_nan |= {value} != {value};"
        else:
            yield from super().update(stmt)

    def array(self, stmt: k.Array) -> Lines:
        ctype = self.types[stmt.dtype.compute]
        if stmt.offset is None:
            yield after(f"{ctype} {stmt.name}[{stmt.size}] __attribute__((aligned(64)));", self.note(stmt.note))
        else:
            yield after(f"{ctype}* {stmt.name} = ({ctype}*)(stack + {stmt.offset});", self.note(stmt.note))
        if stmt.init is not None:
            first = self.literal(stmt.init, stmt.dtype.compute)
            yield f"for (int64_t i = 0; i < {stmt.size}; ++i) {stmt.name}[i] = {first};"

    @rules(k.Prefetch)
    def _prefetch(self, stmt: k.Prefetch) -> Lines:
        step = CACHE_LINE // self.dtype_of[stmt.buffer].size
        yield f"for (int64_t i = 0; i < {self.size(stmt.count)}; i += {step}) {{"
        yield f"__builtin_prefetch({stmt.buffer} + {self.index(stmt.index)} + i);"
        yield "}"

    @rules(k.Accumulate)
    def _accumulate(self, stmt: k.Accumulate) -> Lines:
        dtype, target = self.dtype_of[stmt.buffer], f"{stmt.buffer}[{self.index(stmt.index)}]"
        element, value = self.from_storage(target, dtype), self.expr(stmt.value)
        yield f"{target} = {self.to_storage(combination(stmt, element, value), dtype)};"

    @rules(k.TileProduct)
    def _tile_product(self, stmt: k.TileProduct) -> Lines:
        a, b = (f"{buffer or array} + {self.index(at)}" for buffer, array, at
                in ((stmt.a, stmt.a_array, stmt.a_at), (stmt.b, stmt.b_array, stmt.b_at)))
        rows, columns = self.below(stmt.rows, stmt.row_limit), self.below(stmt.columns, stmt.column_limit)
        yield (f"{MULTIPLY}{a}, {stmt.a_row}, {stmt.a_term}, {b}, {stmt.b_term}, {stmt.terms}, "
               f"{stmt.results}, {stmt.width}, {rows}, {columns});")

    @rules(k.Fail)
    def _fail(self, stmt: k.Fail) -> Lines:
        yield f"if (!{self.expr(stmt.unless)}) call->failed = 1;"


def _vectorises(body: Sequence[k.Stmt]) -> bool:
    return not any(isinstance(s, k.For | k.If | k.ArgUpdate | k.Fail) for s in body)
