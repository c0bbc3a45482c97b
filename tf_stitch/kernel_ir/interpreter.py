"""Runs a kernel program in Python, checking what hardware does not: bounds, barriers, races between blocks.

Threads of a block run in lockstep: a statement is executed by every active thread before the next statement.
That is a legal schedule, and it lets reductions and barriers be checked: they have to be reached by all threads
of their group. Slow; for small tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.numpy_reference import combined
from tf_stitch.ir.op_attrs import ScatterAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import is_barrier
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.checked_memory import Elements, Writers
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.instantiate import instantiate
from tf_stitch.kernel_ir.interpreted_values import ThreadValues
from tf_stitch.kernel_ir.tile_statement import TileStatement
from tf_stitch.kernel_ir.verifier import parts_of_blocks

_COMBINE = {OpKind.SUM: np.add, OpKind.PROD: np.multiply, OpKind.MAX: np.maximum, OpKind.MIN: np.minimum,
            OpKind.ANY: np.logical_or, OpKind.ALL: np.logical_and}


class KernelFailure(Exception):
    """A Fail statement fired."""


def interpret_program(program: k.Program, buffers: Mapping[str, NDArray[Any]]) -> None:
    """Runs all blocks; writes into the arrays of `buffers` (flat, storage dtype), in place.

    Raises:
        VerifyError: an access out of bounds, a read of an array element never written, a barrier or reduction
            that not all threads reach, two blocks that write different values to one element, a block that reads what
            another wrote with no grid barrier between, or that sends to another of its cluster with none.
        KernelFailure: a Fail statement fired.
    """
    program = instantiate(program)
    state = {b.name: buffers[b.name] if b.constant is None else np.asarray(b.constant, b.dtype.numpy)
             for b in program.buffers}
    for b in program.buffers:
        if state[b.name].shape != (b.size,):
            raise VerifyError(f"buffer {b.name} has {state[b.name].shape}, not ({b.size},)")
    writers: Writers = {}
    scratch: dict[tuple[str, int], int | None] = {}
    phases = program.phases()
    whole = (k.GridLoop(program.grid, program.body, group=program.cluster),)
    for stmt in program.body if program.looped or program.partitioned else whole:
        if isinstance(stmt, k.GridBarrier):
            _pass_grid_barrier(writers, scratch)
        elif isinstance(stmt, k.ThreadRange):  # ranges share nothing: one after the other is as good as beside
            phase = next(phases)
            for number in range(phase.grid):
                _Block(phase, state, number, writers, scratch, number).run(stmt.body)
        elif isinstance(stmt, k.GridLoop):
            phase = next(phases)
            firsts = range(0, phase.grid, stmt.group)
            seats: dict[int, _Block] = {}  # blocks of the grid, in their last turns
            for turn, first in enumerate(reversed(firsts) if stmt.backwards else firsts):
                group = [_Block(phase, state, first + i, writers, scratch, first) for i in range(stmt.group)]
                for i, block in enumerate(group):
                    block.cluster = group
                    seat = (turn * stmt.group + i) % program.grid
                    block.before, seats[seat] = seats.get(seat), block
                for part, waits in parts_of_blocks(stmt.body):
                    for block in group:
                        block.run(part)
                    for block in group:
                        block.wait(waits)
                    scratch.update({element: first for element, (block, _) in writers.items()
                                    if first <= block < first + stmt.group})
        elif not isinstance(stmt, k.Comment):
            raise VerifyError(f"{type(stmt).__name__} beside grid loops")


def _pass_grid_barrier(writers: Writers, scratch: dict[tuple[str, int], int | None]) -> None:
    scratch.update(dict.fromkeys(writers, None))
    writers.clear()


def _by_each_thread(block: _Block, stmt: k.Stmt, active: list[int]) -> None:
    rule = _per_thread.of(stmt)
    for thread in active:
        rule(block, stmt, thread)


_per_thread: ByType[None] = ByType("the interpreter")
"""What a thread does by itself: (block, stmt, thread)."""
_together: ByType[None] = ByType("the interpreter", otherwise=_by_each_thread)
"""What the threads of a block do in a statement: (block, stmt, active threads)."""


class _Block(ThreadValues):
    """One block of one phase."""

    def __init__(self, program: k.Program, buffers: dict[str, NDArray[Any]], block: int, writers: Writers,
                 scratch: dict[tuple[str, int], int | None], group: int) -> None:
        super().__init__(program, buffers, block, writers, scratch, group)
        self.program = program
        self.under_way: list[list[Elements]] = [[] for _ in range(self.threads)]  # of each copy, by thread
        self.before: _Block | None = None  # the same block of the grid, in its turn before
        self.cluster: Sequence[_Block] = ()

    def wait(self, stmt: k.Stmt | None) -> None:
        """All threads of the blocks that this one waits for have come here; None: to their end."""
        self.epoch += stmt is not None and is_barrier(stmt, self.program.warp)
        self.received.passed(stmt)

    def run(self, part: Sequence[k.Stmt]) -> None:
        """Statements up to the next group barrier; what was declared before is still there."""
        with np.errstate(all="ignore"):
            self.run_body(part, list(range(self.threads)))

    def run_body(self, body: Sequence[k.Stmt], active: list[int]) -> None:
        for stmt in body:
            _together.of(stmt)(self, stmt, active)

    @_together(TileStatement)
    def _tile(self, stmt: TileStatement, active: list[int]) -> None:
        stmt.interpret(self)

    @_together(k.If)
    def _if(self, stmt: k.If, active: list[int]) -> None:
        taken = list(zip(active, self._values(stmt.condition, active), strict=True))
        self.run_body(stmt.body, [t for t, condition in taken if condition])
        self.run_body(stmt.orelse, [t for t, condition in taken if not condition])

    @_together(k.Barrier)
    def _barrier(self, stmt: k.Barrier, active: list[int]) -> None:
        waiting = stmt.barrier.threads or self.threads
        if len(active) != waiting:
            raise VerifyError(f"a barrier is reached by {len(active)} of {waiting} threads")
        self.epoch += 1

    @_together(k.For)
    def _for(self, stmt: k.For, active: list[int]) -> None:
        for i in range(stmt.var.extent):
            for t in active:
                self.indices[t][stmt.var.name] = i
            if stmt.limit is not None:
                active = [t for t, limit in zip(active, self._places(stmt.limit, active), strict=True) if i < limit]
                if not active:
                    break
            self.run_body(stmt.body, active)

    @_together(k.Array)
    def _array(self, stmt: k.Array, active: list[int]) -> None:
        self.sizes[stmt.name] = stmt.size
        start = {} if stmt.init is None else {i: stmt.dtype.numpy.type(stmt.init) for i in range(stmt.size)}
        shared = dict(start)
        if stmt.space is k.Space.SHARED or stmt.offset is not None:
            self.watched[stmt.name] = stmt
        if stmt.carried and self.before is not None:
            shared, self.under_way = self.before.arrays[0][stmt.name], self.before.under_way
        if stmt.received:  # another block may have sent something already
            shared = self.received.arrays.setdefault(stmt.name, {})
        for t in active:
            self.arrays[t][stmt.name] = shared if stmt.space is k.Space.SHARED else dict(start)

    @_per_thread(k.Comment, k.Prefetch, k.LoadFence, k.AwaitDependencies)
    def _nothing(self, stmt: k.Stmt, t: int) -> None:
        """Has no meaning but for time and for readers."""

    @_together(k.Let, k.Assign)
    def _let(self, stmt: k.Let | k.Assign, active: list[int]) -> None:
        for t, value in zip(active, self._values(stmt.value, active), strict=True):
            self.scalars[t][stmt.name] = value

    @_together(k.LetIndex)
    def _let_index(self, stmt: k.LetIndex, active: list[int]) -> None:
        source = stmt.source
        values = self._places(source, active) if isinstance(source, Index) else map(int, self._values(source, active))
        for t, value in zip(active, values, strict=True):
            self.indices[t][stmt.var.name] = value if stmt.limit is None else max(0, min(value, stmt.limit))

    @_per_thread(k.Accumulator)
    def _accumulator(self, stmt: k.Accumulator, t: int) -> None:
        self.scalars[t][stmt.name] = stmt.dtype.numpy.type(stmt.init)

    @_together(k.Update)
    def _update(self, stmt: k.Update, active: list[int]) -> None:
        before = np.asarray([self.scalars[t][stmt.name] for t in active])
        after = _COMBINE[stmt.combine](before, self._values(stmt.value, active))
        for t, value in zip(active, after, strict=True):
            self.scalars[t][stmt.name] = value

    @_per_thread(k.ArgUpdate)
    def _arg_update(self, stmt: k.ArgUpdate, t: int) -> None:
        value, scalars = self._value(stmt.value, t), self.scalars[t]
        if _beats(stmt.kind, value, scalars[stmt.best]):
            scalars[stmt.best], scalars[stmt.at] = value, self._index(stmt.index, t)

    @_together(k.SetElement)
    def _set_element(self, stmt: k.SetElement, active: list[int]) -> None:
        places, values = self._places(stmt.index, active), self._values(stmt.value, active)
        for t, at, value in zip(active, places, values, strict=True):
            if stmt.combine is not None:
                value = _COMBINE[stmt.combine](self._element(stmt.array, at, t), value)
            self._set(stmt.array, at, value, t)

    @_together(k.Store)
    def _store_each(self, stmt: k.Store, active: list[int]) -> None:
        if active:
            self.store_all(stmt.buffer, self._places(stmt.index, active), self._values(stmt.value, active))

    @_per_thread(k.Accumulate)
    def _accumulate(self, stmt: k.Accumulate, t: int) -> None:
        """Blocks of threads may share an element, tasks may not."""
        buffer, at = self.buffers[stmt.buffer], self._index(stmt.index, t)
        if not 0 <= at < len(buffer):
            raise VerifyError(f"{stmt.buffer}[{at}] is accumulated to; it has {len(buffer)} elements")
        attrs = ScatterAttrs((), stmt.combine, stmt.updates_first)
        element = buffer[at].astype(DType.of(buffer.dtype).compute.numpy)
        value = np.asarray(combined(attrs, element, self._value(stmt.value, t)))
        if self.threads > 1:
            buffer[at] = value.astype(buffer.dtype)
        else:
            self._store(stmt.buffer, at, value)

    @_per_thread(k.LoadVector)
    def _load_vector(self, stmt: k.LoadVector, t: int) -> None:
        index, at = self._aligned(stmt.index, stmt.width, t), self._index(stmt.at, t)
        for i in range(stmt.width):
            self._set(stmt.array, at + i, self._load(stmt.buffer, index + i), t)

    @_per_thread(k.StoreVector)
    def _store_vector(self, stmt: k.StoreVector, t: int) -> None:
        index, values = self._aligned(stmt.index, stmt.width, t), self.arrays[t][stmt.array]
        self.store_all(stmt.buffer, range(index, index + stmt.width), [values[i] for i in range(stmt.width)])

    @_per_thread(k.AwaitAsyncCopies)
    def _await_async_copies(self, stmt: k.AwaitAsyncCopies, t: int) -> None:
        while len(self.under_way[t]) > stmt.pending:
            for (array, at), value in self.under_way[t].pop(0).items():
                self._set(array, at, value, t)

    @_per_thread(k.Fail)
    def _fail(self, stmt: k.Fail, t: int) -> None:
        if not self._value(stmt.unless, t):
            raise KernelFailure("an index is out of range")

    @_per_thread(k.AsyncCopy)
    def _async_copy(self, stmt: k.AsyncCopy, t: int) -> None:
        """What the elements held is lost at once; what comes can be read when it was awaited."""
        at = self._index(stmt.at, t)
        for i in range(at, at + stmt.width):
            self._check_race(stmt.array, i, t, "writes")
            self.arrays[t][stmt.array].pop(i, None)
        elements: Elements = {}
        if stmt.inside is None or self._value(stmt.inside, t):
            index = self._aligned(stmt.index, stmt.width, t)
            elements = {(stmt.array, at + i): self._load(stmt.buffer, index + i) for i in range(stmt.width)}
        self.under_way[t].append(elements)

    @_per_thread(k.Send)
    def _send(self, stmt: k.Send, t: int) -> None:
        at, block, size = self._index(stmt.index, t), self._index(stmt.block, t), self.sizes[stmt.array]
        if not (0 <= at < size and block < len(self.cluster)):
            raise VerifyError(f"{stmt.array}[{at}] of block {block} is sent to; there are {size} elements, "
                              f"{len(self.cluster)} blocks")
        self.cluster[block].received.receive((stmt.array, at), self._value(stmt.value, t), self.received)

    @_together(k.AllReduce, k.ArgAllReduce)
    def _all_reduce(self, stmt: k.AllReduce | k.ArgAllReduce, active: list[int]) -> None:
        if self.threads % stmt.width or len(active) % stmt.width:
            raise VerifyError(f"a reduction over {stmt.width} threads in a block of {self.threads}")
        for first in range(0, self.threads, stmt.width):
            group = [t for t in active if first <= t < first + stmt.width]
            if not group:
                continue
            if len(group) != stmt.width:
                raise VerifyError(f"a reduction is reached by {len(group)} of {stmt.width} threads")
            self._reduce_group(stmt, group)
        self.epoch += is_barrier(stmt, self.program.warp) and len(active) == self.threads

    def _reduce_group(self, stmt: k.AllReduce | k.ArgAllReduce, group: list[int]) -> None:
        first = self.scalars[group[0]]
        if isinstance(stmt, k.AllReduce):
            for name, combine in stmt.members:
                total = first[name]
                for t in group[1:]:
                    total = _COMBINE[combine](total, self.scalars[t][name])
                for t in group:
                    self.scalars[t][name] = total
            return
        at, best = first[stmt.at], first[stmt.best]
        for t in group[1:]:
            index, value = self.scalars[t][stmt.at], self.scalars[t][stmt.best]
            if _beats(stmt.kind, value, best) or (value == best and index < at):
                at, best = index, value
        for t in group:
            self.scalars[t][stmt.at], self.scalars[t][stmt.best] = at, best


def _beats(kind: OpKind, value: Any, best: Any) -> bool:
    return bool(value > best if kind is OpKind.ARGMAX else value < best)
