"""The only walker over kernel IR statements; CUDA C++ and C differ in the tables and hooks of their Target."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tf_stitch.emit.comments import after, safe_comment
from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import Atom, SymbolicDim, surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.index import FloorDiv, Index, Mod, Var

Lines = Iterator[str]

_COMBINE = {OpKind.SUM: "{0} + {1}", OpKind.PROD: "{0} * {1}", OpKind.MAX: "tfs_max_of({0}, {1})",
            OpKind.MIN: "tfs_min_of({0}, {1})", OpKind.ANY: "{0} | {1}", OpKind.ALL: "{0} & {1}"}
_COMBINE_INTEGER = {**_COMBINE, OpKind.SUM: "tfs_add({0}, {1})", OpKind.PROD: "tfs_mul({0}, {1})"}

# Where a type is missing the op has no meaning for it. {f}: "f" for float32, "" for float64.
_FLOAT = {
    OpKind.NEG: "-{0}", OpKind.ABS: "fabs{f}({0})", OpKind.SIGN: "tfs_sign{f}({0})", OpKind.EXP: "tfs_exp{f}({0})",
    OpKind.EXPM1: "tfs_expm1{f}({0})", OpKind.LOG: "tfs_log{f}({0})", OpKind.LOG1P: "tfs_log1p{f}({0})",
    OpKind.SQRT: "sqrt{f}({0})", OpKind.RSQRT: "tfs_rsqrt{f}({0})", OpKind.RECIPROCAL: "({one} / {0})",
    OpKind.TANH: "tfs_tanh{f}({0})", OpKind.SIGMOID: "tfs_sigmoid{f}({0})", OpKind.ERF: "tfs_erf{f}({0})",
    OpKind.ERFC: "tfs_erfc{f}({0})", OpKind.SIN: "sin{f}({0})", OpKind.COS: "cos{f}({0})", OpKind.TAN: "tan{f}({0})",
    OpKind.ASIN: "asin{f}({0})", OpKind.ACOS: "acos{f}({0})", OpKind.ATAN: "atan{f}({0})",
    OpKind.SINH: "sinh{f}({0})", OpKind.COSH: "cosh{f}({0})", OpKind.ASINH: "asinh{f}({0})",
    OpKind.ACOSH: "acosh{f}({0})", OpKind.ATANH: "atanh{f}({0})", OpKind.LGAMMA: "lgamma{f}({0})",
    OpKind.FLOOR: "floor{f}({0})", OpKind.CEIL: "ceil{f}({0})", OpKind.RINT: "rint{f}({0})",
    OpKind.IS_NAN: "({0} != {0})", OpKind.IS_INF: "(fabs{f}({0}) == TFS_INF)",
    OpKind.IS_FINITE: "(fabs{f}({0}) < TFS_INF)",
    OpKind.BITS: "tfs_bits({0})",
    OpKind.ADD: "({0} + {1})", OpKind.SUB: "({0} - {1})", OpKind.MUL: "({0} * {1})", OpKind.DIV: "({0} / {1})",
    OpKind.FLOOR_DIV: "floor{f}({0} / {1})", OpKind.FLOOR_MOD: "tfs_floor_mod{f}({0}, {1})",
    OpKind.TRUNC_MOD: "fmod{f}({0}, {1})", OpKind.POW: "pow{f}({0}, {1})", OpKind.MAXIMUM: "tfs_max({0}, {1})",
    OpKind.MINIMUM: "tfs_min({0}, {1})", OpKind.ATAN2: "atan2{f}({0}, {1})",
}
_INTEGER = {
    OpKind.NEG: "tfs_ineg({0})", OpKind.ABS: "tfs_abs({0})", OpKind.SIGN: "tfs_isign({0})", OpKind.INVERT: "~{0}",
    OpKind.ADD: "tfs_add({0}, {1})", OpKind.SUB: "tfs_sub({0}, {1})", OpKind.MUL: "tfs_mul({0}, {1})",
    OpKind.DIV: "tfs_idiv({0}, {1})", OpKind.FLOOR_DIV: "tfs_ifloor_div({0}, {1})",
    OpKind.FLOOR_MOD: "tfs_ifloor_mod({0}, {1})", OpKind.TRUNC_MOD: "tfs_imod({0}, {1})",
    OpKind.MAXIMUM: "tfs_max({0}, {1})", OpKind.MINIMUM: "tfs_min({0}, {1})",
    OpKind.RANDOM_BITS: "tfs_random_bits({0} / 4, {0} % 4, {1}, {2}, {3})",
}
_ANY_TYPE = {
    OpKind.LESS: "({0} < {1})", OpKind.LESS_EQUAL: "({0} <= {1})", OpKind.GREATER: "({0} > {1})",
    OpKind.GREATER_EQUAL: "({0} >= {1})", OpKind.EQUAL: "({0} == {1})", OpKind.NOT_EQUAL: "({0} != {1})",
    OpKind.AND: "({0} & {1})", OpKind.OR: "({0} | {1})", OpKind.XOR: "({0} ^ {1})", OpKind.LOGICAL_NOT: "!{0}",
    OpKind.SELECT: "({0} ? {1} : {2})",
}
_SHORT = {DType.F32: "f32", DType.F64: "f64", DType.I32: "i32", DType.I64: "i64"}

NARROW = {DType.F16: "half", DType.BF16: "bfloat16", DType.F8_E4M3FN: "float8_e4m3fn", DType.F8_E5M2: "float8_e5m2"}
"""Types that are bits in memory, and float32 elsewhere: tfs_to_NAME and tfs_from_NAME convert."""
FLOAT8 = "_float8_"
"""What names of functions in float8.h have in them."""


def has_intrinsic(kind: OpKind, dtype: DType) -> bool:
    """Whether the C family can compute an elementwise op on operands of compute type `dtype`."""
    return kind is OpKind.CAST or kind in _ANY_TYPE or kind in (_FLOAT if dtype.is_float else _INTEGER)


class CFamily(ABC):
    """Renders statements as lines. One instance renders one program."""

    types: ClassVar[Mapping[DType, str]] = {  # compute types
        DType.F32: "float", DType.F64: "double", DType.I32: "int32_t", DType.I64: "int64_t",
        DType.U64: "uint64_t", DType.BOOL: "int"}
    storage: ClassVar[Mapping[DType, str]] = {  # types in memory
        **types, DType.BOOL: "uint8_t", DType.F16: "uint16_t", DType.BF16: "uint16_t", DType.F8_E4M3FN: "uint8_t",
        DType.F8_E5M2: "uint8_t"}
    halves: ClassVar[Mapping[OpKind, str]] = {}
    """Functions of a float32 that are exact enough for halves, and faster."""
    index_type: str
    rules: ClassVar[ByType[Lines]] = ByType("the C family")
    """How statements of a type are rendered. A target's table has these, and those that it alone has."""

    def __init__(self, program: k.Program) -> None:
        self.program = program
        self.dtype_of = {b.name: b.dtype for b in program.buffers}
        self.sizes: dict[Atom, str] = {}  # parameters for what sizes are made of, in order of first use

    # What targets differ in.
    @abstractmethod
    def for_loop(self, stmt: k.For) -> Lines:
        """A whole loop."""

    @abstractmethod
    def array(self, stmt: k.Array) -> Lines:
        """An array declaration, initialised if asked."""

    # For the reader.
    def head(self) -> Lines:
        """Comments before the function: what it computes, who runs it, what its parameters are."""
        p = self.program
        if p.title:
            yield f"// {safe_comment(p.title)}"
        if not isinstance(p.grid, SymbolicDim):
            cluster = f", in clusters of {p.cluster}" if p.cluster > 1 else ""
            yield f"// blocks: {p.grid}, of {p.threads} threads{cluster}" if p.threads > 1 else f"// tasks: {p.grid}"
        for b in p.parameters:
            count = "" if isinstance(b.size, SymbolicDim) else f"[{b.size}]"
            yield f"//   {safe_comment(f'{b.name}: {b.dtype.value}{count} {self.note(b.note)}'.rstrip())}"

    def note(self, note: str) -> str:
        """What the user calls it (see Program.noted)."""
        return self.program.noted.get(note, note)

    # The walk.
    def block(self, body: Sequence[k.Stmt]) -> Lines:
        """All lines of a body, indented by two spaces."""
        for stmt in body:
            for line in self.statement(stmt):
                yield "  " + line

    def statement(self, stmt: k.Stmt) -> Lines:
        """The lines of a statement, by the target's rule for its type."""
        return self.rules.of(stmt)(self, stmt)

    @rules(k.Let)
    def _let(self, stmt: k.Let) -> Lines:
        ctype = self.types[stmt.value.dtype.compute]
        yield after(f"const {ctype} {stmt.name} = {self.expr(stmt.value)};", self.note(stmt.note))

    @rules(k.Accumulator)
    def _accumulator(self, stmt: k.Accumulator) -> Lines:
        first = self.literal(stmt.init, stmt.dtype.compute)
        yield after(f"{self.types[stmt.dtype.compute]} {stmt.name} = {first};", self.note(stmt.note))

    @rules(k.Assign)
    def _assign(self, stmt: k.Assign) -> Lines:
        yield f"{stmt.name} = {self.expr(stmt.value)};"

    @rules(k.ArgUpdate)
    def _arg_update(self, stmt: k.ArgUpdate) -> Lines:
        sign = ">" if stmt.kind is OpKind.ARGMAX else "<"
        yield f"if ({self.expr(stmt.value)} {sign} {stmt.best}) {{"
        yield f"  {stmt.best} = {self.expr(stmt.value)}; {stmt.at} = {self.index(stmt.index)};"
        yield "}"

    @rules(k.SetElement)
    def _set_element(self, stmt: k.SetElement) -> Lines:
        target = f"{stmt.array}[{self.index(stmt.index)}]"
        value = self.expr(stmt.value)
        if stmt.fused and isinstance(stmt.value, k.Apply):
            factors = ", ".join(map(self.expr, stmt.value.args))
            value = f"fma{'f' if stmt.value.dtype.compute is DType.F32 else ''}({factors}, {target})"
        elif stmt.combine is not None:
            value = _combined(stmt.combine, stmt.value.dtype, target, value)
        yield f"{target} = {value};"

    @rules(k.Store)
    def _store(self, stmt: k.Store) -> Lines:
        value = self.to_storage(self.expr(stmt.value), self.dtype_of[stmt.buffer])
        yield f"{stmt.buffer}[{self.index(stmt.index)}] = {value};"

    @rules(k.If)
    def _if(self, stmt: k.If) -> Lines:
        yield f"if ({self.expr(stmt.condition)}) {{"
        yield from self.block(stmt.body)
        if stmt.orelse:
            yield "} else {"
            yield from self.block(stmt.orelse)
        yield "}"

    @rules(k.Comment)
    def _comment(self, stmt: k.Comment) -> Lines:
        yield f"// {safe_comment(replace(stmt, notes=tuple(map(self.note, stmt.notes))).line)}"

    # What targets render in their own way.
    @rules(k.For)
    def _for(self, stmt: k.For) -> Lines:
        return self.for_loop(stmt)

    @rules(k.Array)
    def _array(self, stmt: k.Array) -> Lines:
        return self.array(stmt)

    @rules(k.Update)
    def _update(self, stmt: k.Update) -> Lines:
        return self.update(stmt)

    def update(self, stmt: k.Update) -> Lines:
        yield f"{stmt.name} = {_combined(stmt.combine, stmt.value.dtype, stmt.name, self.expr(stmt.value))};"

    @rules(k.LetIndex)
    def _let_index(self, stmt: k.LetIndex) -> Lines:
        t, name = self.index_type, stmt.var.name
        if stmt.limit is None:
            assert isinstance(stmt.source, Index)
            yield f"const {t} {name} = {self.index(stmt.source)};"
            return
        limit = self.size(stmt.limit)
        if isinstance(stmt.source, Index):
            text = self.index(stmt.source)
            least = text if surely_less(-1, stmt.source.bounds[0]) else f"({text} < 0 ? 0 : {text})"
            yield f"const {t} {name} = {text} < {limit} ? {least} : {limit};"
        else:
            text = self.expr(stmt.source)
            yield f"const {t} {name} = {text} < 0 ? 0 : ({text} > {limit} ? {limit} : ({t}){text});"

    def loop_end(self, stmt: k.For) -> str:
        """One behind the last iteration: one number, for loops that are left in two ways are not unrolled well."""
        return self.below(stmt.var.extent, stmt.limit)

    def below(self, extent: int, limit: Index | None) -> str:
        """The smaller one of an extent and a limit, if there is one."""
        if limit is None:
            return self.size(extent)
        end, most = self.index(limit), self.size(extent)
        return f"({end} < {most} ? {end} : {most})"

    def index(self, index: Index) -> str:
        """An index as an expression of index_type."""
        parts: list[str] = []
        for atom, c in index.terms:
            if isinstance(atom, Var):
                text = atom.name
            else:
                sign = "/" if isinstance(atom, FloorDiv) else "%"
                text = self.divide(self.index(atom.base), sign, atom)
            parts.append(text if c == 1 else f"{text} * {self.size(c)}")
        if index.offset != 0 or not parts:
            parts.append(self.size(index.offset))
        return " + ".join(parts)

    def divide(self, base: str, sign: str, atom: FloorDiv | Mod) -> str:
        """A quotient ("/") or remainder ("%") of an index that is not negative."""
        return f"({base if base.isidentifier() else f'({base})'} {sign} {self.size(atom.divisor)})"

    def size(self, value: int) -> str:
        """A number as an expression of index_type: what a Size is made of are parameters."""
        if not isinstance(value, SymbolicDim):
            return _number(value)
        parts = ["*".join([*(self._parameter(a) for a in m), *([_number(c)] if c != 1 or not m else [])])
                 for m, c in value.terms]
        return f"({' + '.join(parts)})"

    def _parameter(self, atom: Atom) -> str:
        return self.sizes.setdefault(atom, f"n{len(self.sizes)}")

    def expr(self, expr: k.Expr) -> str:
        if isinstance(expr, k.Literal):
            if isinstance(expr.value, SymbolicDim):
                return f"(({self.types[expr.dtype.compute]}){self.size(expr.value)})"
            return self.literal(expr.value, expr.dtype.compute)
        if isinstance(expr, k.Local):
            return expr.name
        if isinstance(expr, k.FromIndex):
            return f"({self.types[expr.dtype]})({self.index(expr.index)})"
        if isinstance(expr, k.Load):
            return self.from_storage(f"{expr.buffer}[{self.index(expr.index)}]", self.dtype_of[expr.buffer])
        if isinstance(expr, k.Element):
            return f"{expr.array}[{self.index(expr.index)}]"
        if isinstance(expr, k.InRange):
            low = "" if surely_less(expr.low - 1, expr.index.bounds[0]) else (
                f"{self.index(expr.index)} >= {self.size(expr.low)} && ")
            return f"({low}{self.index(expr.index)} < {self.size(expr.high)})"
        return self.apply(expr)

    def apply(self, expr: k.Apply) -> str:
        args = [self.expr(a) for a in expr.args]
        if expr.kind is OpKind.CAST:
            source = expr.args[0].dtype.compute
            value = f"tfs_to_odd({args[0]})" if expr.dtype.is_float8 and source is DType.F64 else \
                self.cast(args[0], source, expr.dtype.compute)
            is_half = expr.dtype.compute is not expr.dtype
            return self.from_storage(self.to_storage(value, expr.dtype), expr.dtype) if is_half else value
        if expr.kind is OpKind.RANDOM_BITS and isinstance(expr.args[0], k.FromIndex):
            return self._random_bits(expr.args[0].index, args[1:])
        dtype = expr.args[0].dtype.compute
        template = self.halves.get(expr.kind) if expr.half else None
        template = template or _ANY_TYPE.get(expr.kind) or (_FLOAT if dtype.is_float else _INTEGER).get(expr.kind)
        if template is None:
            raise VerifyError(f"no intrinsic for {expr.kind.value} on {dtype.value}")
        return template.format(*args, f="f" if dtype is DType.F32 else "", one=self.literal(1, dtype))

    def _random_bits(self, at: Index, others: Sequence[str]) -> str:
        """The word at an index. Which block has it is told by the algebra of indices: compilers do not always see that
        neighbours share one."""
        block, word = self.index(at // 4), self.index(at % 4)
        return f"tfs_random_bits({block}, {word}, {', '.join(others)})"

    def cast(self, text: str, source: DType, target: DType) -> str:
        if source is target:
            return text
        if target is DType.BOOL:
            return f"({text} != 0)"
        if source.is_float and target.is_integer:
            return f"tfs_{_SHORT[target]}_of_{_SHORT[source]}({text})"
        return f"({self.types[target]})({text})"

    def literal(self, value: float | int | bool, dtype: DType) -> str:
        """A constant of a compute type, exact."""
        if dtype is DType.BOOL:
            return "1" if value else "0"
        if not dtype.is_float:
            suffix = "ULL" if dtype is DType.U64 else "LL"
            text = "(-9223372036854775807LL - 1)" if value == -(1 << 63) else f"{int(value)}{suffix}"
            return f"(({self.types[dtype]}){text})"
        if math.isnan(value):
            return f"(({self.types[dtype]})TFS_NAN)"
        if math.isinf(value):
            return f"(({self.types[dtype]}){'-' if value < 0 else ''}TFS_INF)"
        text = f"{value:.9g}" if dtype is DType.F32 else f"{value:.17g}"
        text = text if any(c in text for c in ".e") else text + ".0"
        text += "f" if dtype is DType.F32 else ""
        return f"({text})" if text.startswith("-") else text

    def from_storage(self, text: str, dtype: DType) -> str:
        narrow = NARROW.get(dtype)
        return f"tfs_from_{narrow}({text})" if narrow else text

    def to_storage(self, text: str, dtype: DType) -> str:
        if narrow := NARROW.get(dtype):
            return f"tfs_to_{narrow}({text})"
        return f"({self.storage[dtype]})({text})" if dtype is DType.BOOL else text

    def stored_literal(self, value: float | int | bool, dtype: DType) -> str:
        """A constant as it lies in memory; a constant expression, which initialises a table."""
        if dtype in NARROW:
            return hex(int(np.asarray(value).astype(dtype.numpy).view(f"u{dtype.size}")))
        if dtype.is_float and not math.isfinite(value):
            return "(0.0 / 0.0)" if math.isnan(value) else "(1.0 / 0.0)" if value > 0 else "(-1.0 / 0.0)"
        return self.literal(value, dtype.compute)

    def constants(self, qualifier: str, suffix: str = "") -> Lines:
        """Tables of constant buffers."""
        for b in self.program.buffers:
            if b.constant is not None:
                values = ", ".join(self.stored_literal(v, b.dtype) for v in b.constant)
                yield f"{qualifier} {self.storage[b.dtype]} {b.name}{suffix}[{b.size}] = {{{values}}};"


def _combined(kind: OpKind, dtype: DType, a: str, b: str) -> str:
    """Text of a reduction's combination of two values."""
    return (_COMBINE_INTEGER if dtype.is_integer else _COMBINE)[kind].format(a, b)


def combination(stmt: k.Accumulate, element: str, update: str) -> str:
    """Text of an element after an update."""
    if stmt.combine is Combine.SET:
        return update
    if stmt.combine in (Combine.SUM, Combine.PROD):
        return _combined(OpKind(stmt.combine.value), stmt.value.dtype, element, update)
    a, b = (update, element) if stmt.updates_first else (element, update)
    return f"({a} {'<' if stmt.combine is Combine.MAX else '>'} {b} ? {b} : {a})"


def _number(value: int) -> str:
    text = f"{value}LL" if abs(value) >= 1 << 31 else str(value)
    return f"({text})" if value < 0 else text
