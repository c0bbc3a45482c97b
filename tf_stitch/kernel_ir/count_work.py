"""Counts from a program's statements what one of its threads does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.cache_lines import lines_of
from tf_stitch.kernel_ir.cost import array_words
from tf_stitch.kernel_ir.index import FloorDiv, Index, Mod, Var
from tf_stitch.kernel_ir.intervals import Interval, interval_of, length_of, split_by
from tf_stitch.kernel_ir.tile_statement import TileStatement
from tf_stitch.kernel_ir.tile_work import TileWork
from tf_stitch.kernel_ir.vectorised_loops import loaded_together, vectorises
from tf_stitch.kernel_ir.walk import bodies
from tf_stitch.kernel_ir.work import LINE_BYTES, SIMD_LANES, Access, Work

_ELEMENTWISE = {OpKind.SUM: OpKind.ADD, OpKind.PROD: OpKind.MUL, OpKind.MAX: OpKind.MAXIMUM,
                OpKind.MIN: OpKind.MINIMUM}
"""Reductions into separate elements wait for nothing."""


def count_work(program: k.Program) -> Work:
    """The work of one thread."""
    counter = _Counter(program)
    over_blocks = program.threads == 1 and program.grid > 1 and vectorises(program.body, program.block)
    counter.body(program.body, 1.0, program.block if over_blocks else None, None)
    counter.close_round(1.0)
    return counter.work


_rules: ByType[None] = ByType("the work counter")
"""What each kind of statement does; (stmt, times, innermost vector loop, innermost serial loop)."""


class _Counter(TileWork):
    def __init__(self, program: k.Program) -> None:
        super().__init__(program)
        self._dtypes = {b.name: b.dtype for b in program.buffers}
        self._tables = {b.name for b in program.buffers if b.constant is not None}
        self._thread = Var(k.THREAD, program.threads) if program.threads > 1 else None
        self._behind: dict[str, frozenset[str]] = {}  # variable -> loop variables that it was computed from
        self._loaded: set[str] = set()  # index variables that were loaded
        self._lengths: dict[int, int] = {}  # statements by identity -> see _length
        self._within: dict[Index, Interval] = {}  # what an index is known to be in

    def body(self, body: Sequence[k.Stmt], times: float, simd: Var | None, serial: Var | None) -> None:
        for stmt in body:
            _rules.of(stmt)(self, stmt, times, simd, serial)

    @_rules(k.Accumulator, k.Comment, k.GridLoop, k.GridBarrier, k.GroupBarrier, k.ThreadRange, k.ClusterStarted,
            k.LoadFence, k.AwaitAsyncCopies, k.AwaitDependencies, k.Prefetch)
    def _nothing(self, stmt: k.Stmt, times: float, simd: Var | None, serial: Var | None) -> None:
        """Takes no time that is known here."""

    @_rules(TileStatement)
    def _tile(self, stmt: TileStatement, times: float, simd: Var | None, serial: Var | None) -> None:
        stmt.count(self, times)

    @_rules(k.If)
    def _if(self, stmt: k.If, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.condition, times / self._still(stmt.condition), simd, serial)
        self._branches(stmt, times, simd, serial)

    @_rules(k.LetIndex)
    def _let_index(self, stmt: k.LetIndex, times: float, simd: Var | None, serial: Var | None) -> None:
        if isinstance(stmt.source, Index):
            self._behind[stmt.var.name] = self._names(stmt.source)
        else:
            self._expression(stmt.source, times, simd, serial)
            self._behind[stmt.var.name] = self._expression_names(stmt.source)
            self._loaded.add(stmt.var.name)
            self.close_round(times)

    @_rules(k.LoadVector, k.StoreVector)
    def _vector(self, stmt: k.LoadVector | k.StoreVector, times: float, simd: Var | None, serial: Var | None) -> None:
        store = isinstance(stmt, k.StoreVector)
        self._behind[stmt.array] = self._behind.get(stmt.array, frozenset()) | self._names(stmt.index)
        self._access(stmt.buffer, stmt.index, times * stmt.width, stmt.width, simd, serial, store)

    @_rules(k.AsyncCopy)
    def _async_copy(self, stmt: k.AsyncCopy, times: float, simd: Var | None, serial: Var | None) -> None:
        rounds = self.loading  # nothing waits for it
        self._access(stmt.buffer, stmt.index, times * stmt.width, stmt.width, simd, serial, False)
        self.loading = rounds
        self.work.async_copies += times

    @_rules(k.AllReduce)
    def _all_reduce(self, stmt: k.AllReduce, times: float, simd: Var | None, serial: Var | None) -> None:
        self._reduction(stmt.width, len(stmt.members), times)

    @_rules(k.ArgAllReduce)
    def _arg_all_reduce(self, stmt: k.ArgAllReduce, times: float, simd: Var | None, serial: Var | None) -> None:
        self._reduction(stmt.width, 2, times)

    @_rules(k.Barrier)
    def _barrier(self, stmt: k.Barrier, times: float, simd: Var | None, serial: Var | None) -> None:
        self._reduction(self.threads, 0, times)

    @_rules(k.ClusterBarrier)
    def _cluster_barrier(self, stmt: k.ClusterBarrier, times: float, simd: Var | None, serial: Var | None) -> None:
        self.work.cross_block_reductions += times
        self.close_round(times)

    @_rules(k.Let, k.Assign)
    def _let(self, stmt: k.Let | k.Assign, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.value, times, simd, serial)
        self._behind[stmt.name] = self._expression_names(stmt.value)

    @_rules(k.Update)
    def _update(self, stmt: k.Update, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.value, times, simd, serial)
        self.op(stmt.value.dtype, stmt.combine, times, simd)

    @_rules(k.ArgUpdate)
    def _arg_update(self, stmt: k.ArgUpdate, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.value, times, simd, serial)
        self.op(stmt.value.dtype, OpKind.MAXIMUM, 3 * times, simd)

    @_rules(k.SetElement)
    def _set_element(self, stmt: k.SetElement, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.value, times, simd, serial)
        self._behind[stmt.array] = self._behind.get(stmt.array, frozenset()) | self._expression_names(stmt.value)
        self.work.elements += times
        if stmt.combine is not None:
            self.op(stmt.value.dtype, _ELEMENTWISE.get(stmt.combine, stmt.combine), times, simd)

    @_rules(k.Send)
    def _send(self, stmt: k.Send, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.value, times, simd, serial)
        self.work.elements += times

    @_rules(k.Store)
    def _store(self, stmt: k.Store, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.value, times, simd, serial)
        self._access(stmt.buffer, stmt.index, times, 1, simd, serial, True)

    @_rules(k.Accumulate)
    def _accumulate(self, stmt: k.Accumulate, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.value, times, simd, serial)
        self.op(stmt.value.dtype, OpKind.ADD, times, simd)
        if self._thread is None:
            self._access(stmt.buffer, stmt.index, times, 1, simd, serial, False)
        self._access(stmt.buffer, stmt.index, times, 1, simd, serial, True)

    @_rules(k.Fail)
    def _fail(self, stmt: k.Fail, times: float, simd: Var | None, serial: Var | None) -> None:
        self._expression(stmt.unless, times, simd, serial)

    @_rules(k.For)
    def _loop(self, stmt: k.For, times: float, simd: Var | None, serial: Var | None) -> None:
        extent = stmt.var.extent
        before = self.loading
        self._loops.append(stmt.var)
        if stmt.loop is k.Loop.SIMD:
            self.work.loops += times
            rest = extent % SIMD_LANES if vectorises(stmt.body, stmt.var) else extent  # what is left of whole vectors
            if extent > rest:
                self.body(stmt.body, times * (extent - rest), stmt.var, stmt.var)
            if rest:
                self.body(stmt.body, times * rest, None, stmt.var)
        else:
            self.body(stmt.body, times * extent, simd, stmt.var if extent > 1 else serial)
        self._loops.pop()
        inside = self.loading - before
        if inside and stmt.loop is k.Loop.SERIAL and self._thread is not None:
            self.loading = before + inside * max(1.0, extent / stmt.together)
            self.work.together = max(self.work.together, loaded_together(stmt))

    def _still(self, condition: k.Expr) -> float:
        """Iterations of the innermost loops that a condition stays the same in: compilers ask it outside."""
        moving, times = self._expression_names(condition), 1.0
        for loop in reversed(self._loops):
            if loop.name in moving:
                break
            times *= max(loop.extent, 1)
        return times

    def _branches(self, stmt: k.If, times: float, simd: Var | None, serial: Var | None) -> None:
        """Weights each branch by the fraction of indices that take it (an operand of a concatenation), or the one
        with more work."""
        held = self.work.registers
        self._taken(stmt, times, simd, serial)
        if stmt.orelse:  # a thread has arrays of one of them
            self.work.registers = held + max(array_words(stmt.body), array_words(stmt.orelse))

    def _taken(self, stmt: k.If, times: float, simd: Var | None, serial: Var | None) -> None:
        if not stmt.orelse:
            self.body(stmt.body, times, simd, serial)
        elif isinstance(stmt.condition, k.InRange):
            index = stmt.condition.index
            whole = self._within.get(index) or interval_of(index)
            inside, outside = split_by(whole, stmt.condition)
            for body, part in ((stmt.body, inside), (stmt.orelse, outside)):
                if length_of(part):
                    self._within[index] = part
                    self.body(body, times * length_of(part) / length_of(whole), simd, serial)
            self._within[index] = whole
        else:
            self.body(max(bodies(stmt), key=self._length), times, simd, serial)

    def _length(self, body: Sequence[k.Stmt]) -> int:
        """Statements without a body of their own, counted once: an operand of a concatenation is an If in the branch
        of the one before."""
        length = 0
        for stmt in body:
            if id(stmt) not in self._lengths:
                inner = bodies(stmt)
                self._lengths[id(stmt)] = sum(map(self._length, inner)) if inner else 1
            length += self._lengths[id(stmt)]
        return length

    @_rules(k.Array)
    def _array(self, stmt: k.Array, times: float, simd: Var | None, serial: Var | None) -> None:
        if stmt.space is k.Space.SHARED:
            end = self.work.shared_bytes if stmt.offset is None else stmt.offset
            self.work.shared_bytes = max(self.work.shared_bytes, end + stmt.nbytes)
        else:
            self.work.registers += stmt.size * max(1, stmt.dtype.compute.size // 4)

    def _reduction(self, width: int, members: int, times: float) -> None:
        self.work.shuffles += times * members * max(min(width, self.warp) - 1, 0).bit_length()
        self.waits(width, times)
        self.close_round(times)

    def _expression(self, expr: k.Expr, times: float, simd: Var | None, serial: Var | None) -> None:
        if isinstance(expr, k.Apply):
            for a in expr.args:
                self._expression(a, times, simd, serial)
            dtype = (expr.args[0].dtype if expr.args else expr.dtype).compute
            # Profiles have one table for both types of halves.
            self.op(DType.BF16 if expr.half else dtype, expr.kind, times, simd)
        elif isinstance(expr, k.Load):
            self._access(expr.buffer, expr.index, times, 1, simd, serial, False)
        elif isinstance(expr, k.Element):
            self.work.elements += times
        elif isinstance(expr, k.InRange):
            self._index(expr.index, times, simd)
            self.op(DType.I32, OpKind.LESS, times, simd)

    def op(self, dtype: DType, kind: OpKind, times: float, simd: Var | None) -> None:
        ops, op = self.work.scalar if simd is None else self.work.vector, (dtype, kind)
        ops[op] = ops.get(op, 0.0) + times

    def _index(self, index: Index, times: float, simd: Var | None) -> None:
        """Divisions by constants that move with the innermost loop: a product and a shift each."""
        for atom, _ in index.terms:
            if isinstance(atom, FloorDiv | Mod) and atom.divisor & (atom.divisor - 1):
                self.op(DType.I32, OpKind.MUL, 2 * times, simd)

    def _access(self, buffer: str, index: Index, count: float, width: int, simd: Var | None, serial: Var | None,
                store: bool) -> None:
        if buffer in self._tables:
            self.work.elements += count
            return
        if not store:
            self.loading = max(self.loading, 1.0)
        self._index(index, count / width, simd)
        if self._dtypes[buffer].is_narrow:
            self.op(DType.F32, OpKind.CAST, count, simd)
        moving = self._names(index)
        distinct = width * math.prod(float(v.extent) for v in self._loops if v.name in moving)
        stride = self._stride(buffer, index, simd, serial)
        self.work.accesses.append(Access(buffer, count, min(count, distinct), width, stride, store))
        if self._thread is not None:
            lines = lines_of(index, self._thread, self.warp, width, self._dtypes[buffer].size, stride)
            self.work.lines += count / width * lines

    def _names(self, index: Index) -> frozenset[str]:
        """Variables that an index depends on."""
        behind = [self._behind[name] for name in index.names if name in self._behind]
        return index.names.union(*behind) if behind else index.names

    def _expression_names(self, expr: k.Expr) -> frozenset[str]:
        if isinstance(expr, k.Local):
            return self._behind.get(expr.name, frozenset())
        if isinstance(expr, k.Apply):
            return frozenset().union(*map(self._expression_names, expr.args))
        if isinstance(expr, k.Element):
            return self._names(expr.index) | self._behind.get(expr.array, frozenset())
        return frozenset() if isinstance(expr, k.Literal) else self._names(expr.index)

    def _stride(self, buffer: str, index: Index, simd: Var | None, serial: Var | None) -> int | None:
        mover = self._thread or simd
        if mover is None:
            return 1
        if any(v.name in self._loaded and mover.name in self._names(index) & self._behind[v.name]
               for v in index.variables()):
            return None
        if self._thread is None:
            return index.coefficient(mover)
        stride = abs(index.value({self._thread: 1}) - index.value({}))
        if stride > 1 and serial is not None and index.coefficient(serial) in (1, -1):
            # The thread itself takes what lies between, in its next iterations.
            return max(1, stride // min(stride, LINE_BYTES // self._dtypes[buffer].size))
        return stride
