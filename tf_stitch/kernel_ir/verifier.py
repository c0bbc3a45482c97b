"""Invariants of a kernel program; a violation is a bug in lowering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tf_stitch.device.spec import ASYNC_COPY_BYTES
from tf_stitch.errors import VerifyError
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import overlapping
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.dependencies import awaits_itself, verify_dependencies
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.roles import Role, Where, held
from tf_stitch.kernel_ir.scope import Scope, require
from tf_stitch.kernel_ir.thread_ranges import verify_ranges
from tf_stitch.kernel_ir.tile_statement import TileStatement
from tf_stitch.kernel_ir.walk import accesses, arrays, evaluated, operands, statements

_OF_CLUSTERS = (k.Send, k.ClusterStarted, k.ClusterBarrier)


def verify_program(program: k.Program) -> None:
    """Checks that names are declared before use and in scope, that buffers are used as declared, that arrays and
    vectors fit, and that no barrier stands where threads part.

    Raises:
        VerifyError: the first violation.
    """
    names = [b.name for b in program.buffers]
    require(len(set(names)) == len(names), "two buffers have one name")
    for b in program.buffers:
        _require_name(b.name)
        require(b.constant is None or (len(b.constant) == b.size and b.mode is k.Mode.READ), f"table {b.name}")
    require(program.threads >= 1 and program.grid >= 0, f"{program.grid} blocks of {program.threads} threads")
    if program.partitioned:
        verify_ranges(program)
    verifier = _Verifier(program)
    for phase in program.phases():
        verifier.threads = phase.threads
        body = [s for s in phase.body if s.where is not Where.TOP_OF_BLOCK and not isinstance(s, k.AwaitDependencies)]
        verifier.body(body, Scope({k.BLOCK: phase.grid, k.THREAD: phase.threads}), parted=False)
        for first, second in overlapping(phase):
            raise VerifyError(f"arrays {first} and {second} share memory with no barrier between their uses")
    if any(isinstance(s, k.GridLoop | k.GridBarrier) for s in program.body):
        _verify_grid_barriers(program)
    if not program.partitioned:
        require(all(barrier == k.WHOLE_BLOCK for s in statements(program.body) for barrier in held(s, Role.BARRIER)),
                 "a barrier of some of the threads outside of a thread range")
    _verify_cluster(program)
    verify_dependencies(program)


def _verify_cluster(program: k.Program) -> None:
    """Blocks of a cluster send to each other after all have started, and read what they got, or end, behind a barrier.
    """
    found = list(statements(program.body))
    require(program.cluster > 1 or not any(isinstance(s, _OF_CLUSTERS) for s in found), "no cluster")
    require(program.grid % program.cluster == 0, f"{program.grid} blocks in clusters of {program.cluster}")
    require(program.cluster == 1 or not program.looped, "a grid loop of clusters")
    received = {a.name for a in arrays(program.body) if a.received}
    started, unread = False, set[str]()
    for stmt in program.body:
        inner = list(statements([stmt]))
        sent = {s.array for s in inner if isinstance(s, k.Send)}
        read = {e.array for s in inner for e in evaluated(s) if isinstance(e, k.Element)} & received
        require(started or not sent, f"{sent} is sent before the cluster has started")
        require(not read & (unread | sent), f"{read & (unread | sent)}: no cluster barrier after its sending")
        require(not (isinstance(stmt, k.ClusterStarted) and started), "the cluster starts twice")
        started |= isinstance(stmt, k.ClusterStarted)
        unread = set() if isinstance(stmt, k.ClusterBarrier) else unread | sent
    require(not unread, f"{unread}: no cluster barrier after its sending")


def _verify_grid_barriers(program: k.Program) -> None:
    """Grid loops and barriers alone stand at the top, so that every thread comes to every barrier; a buffer that is
    written in one loop is read only behind a barrier."""
    written: set[str] = set()
    fresh: set[str] = set()  # written since the last barrier
    scratch = {b.name for b in program.buffers if b.mode is k.Mode.SCRATCH}
    for stmt in program.body:
        require(isinstance(stmt, k.GridLoop | k.GridBarrier | k.Comment),
                 f"{type(stmt).__name__} beside grid loops")
        if isinstance(stmt, k.GridBarrier):
            fresh.clear()
        elif isinstance(stmt, k.GridLoop):
            require(stmt.blocks % stmt.group == 0 and program.grid % stmt.group == 0,
                     f"{stmt.blocks} blocks on a grid of {program.grid}, {stmt.group} together")
            require(not any(arrays(stmt.body, k.Space.SHARED)) or isinstance(stmt.body[-1], k.Barrier),
                     "no barrier before the next block uses the same shared memory")
            reads, writes = buffers_touched(stmt.body)
            require(not fresh & (reads | writes), f"{fresh & (reads | writes)}: no grid barrier after its writing")
            for part in between_barriers(stmt):
                reads, writes = buffers_touched(part)
                require(reads & scratch <= written, f"{reads & scratch - written} is read before it is written")
                written |= writes
                fresh |= writes


def between_barriers(loop: k.GridLoop) -> Iterator[tuple[k.Stmt, ...]]:
    """What the blocks of a group do between group barriers."""
    for part, _ in parts_of_blocks(loop.body):
        yield part


def parts_of_blocks(body: Sequence[k.Stmt]) -> Iterator[tuple[tuple[k.Stmt, ...], k.Stmt | None]]:
    """What blocks do between waiting for others, and what they wait at behind it; None at the end."""
    part: list[k.Stmt] = []
    for stmt in body:
        if stmt.where is Where.TOP_OF_BLOCK:  # a block waits for others there
            yield tuple(part), stmt
            part = []
        else:
            part.append(stmt)
    yield tuple(part), None


def buffers_touched(body: Sequence[k.Stmt]) -> tuple[set[str], set[str]]:
    """Names of the buffers that statements read and write."""
    found = list(accesses(body))
    return {a.buffer for a in found if not a.write}, {a.buffer for a in found if a.write}


def _require_name(name: str) -> None:
    """Sources have it as it is."""
    require(name.isidentifier() and name.isascii(), f"{name!r} is no name in C")


_rules: ByType[None] = ByType("the verifier", otherwise=lambda *_: None)
"""What holds of one kind of statement, beyond the roles of its fields and where it stands."""


class _Verifier:
    def __init__(self, program: k.Program) -> None:
        self.program = program
        self.threads = program.threads  # those of the phase
        self.buffers = {b.name: b for b in program.buffers}
        self.received: set[str] = set()
        self.packed: set[str] = set()

    def body(self, body: Sequence[k.Stmt], scope: Scope, parted: bool) -> None:
        for stmt in body:
            self._reads(stmt, scope)
            self._names(stmt, scope)
            self._stands(stmt, parted)
            _rules.of(stmt)(self, stmt, scope, parted)

    def _names(self, stmt: k.Stmt, scope: Scope) -> None:
        """By the roles of its fields."""
        for role, writes in ((Role.READS, False), (Role.HINTS, False), (Role.WRITES, True)):
            for name in filter(None, held(stmt, role)):
                self._buffer(name, writes)
        for name in filter(None, held(stmt, Role.ARRAY)):
            require(name in scope.arrays, f"array {name} is not declared here")
        for name in held(stmt, Role.SETS):
            self._mutable(name, scope)
        for role in (Role.LET, Role.VAR):
            for name in held(stmt, role):
                _require_name(name)
            scope.scalars.update(dict.fromkeys(held(stmt, role), role is Role.VAR))

    def _stands(self, stmt: k.Stmt, parted: bool) -> None:
        name = type(stmt).__name__
        require(stmt.where is not Where.TOP_OF_PROGRAM, f"{name} inside a grid loop")
        require(stmt.where is not Where.TOP_OF_BLOCK, f"{name} where threads may miss it")
        require(stmt.where is not Where.TOGETHER or not parted, f"{name} where threads part")

    @_rules(k.For)
    def _for(self, stmt: k.For, scope: Scope, parted: bool) -> None:
        inner = scope.inner()
        _require_name(stmt.var.name)
        inner.indices[stmt.var.name] = stmt.var.extent
        inner.uniform |= {stmt.var.name}
        self.body(stmt.body, inner, parted or (stmt.limit is not None and self._differs(stmt.limit, scope)))

    @_rules(k.If)
    def _if(self, stmt: k.If, scope: Scope, parted: bool) -> None:
        for side in (stmt.body, stmt.orelse):
            self.body(side, scope.inner(), parted=True)

    @_rules(k.LetIndex)
    def _let_index(self, stmt: k.LetIndex, scope: Scope, parted: bool) -> None:
        require(stmt.limit is None or stmt.limit < max(stmt.var.extent, 1), f"{stmt.var.name} may pass its extent")
        _require_name(stmt.var.name)
        scope.indices[stmt.var.name] = stmt.var.extent
        uniform = isinstance(stmt.source, Index) and stmt.source.names <= scope.uniform
        scope.uniform = scope.uniform | {stmt.var.name} if uniform else scope.uniform - {stmt.var.name}

    @_rules(k.Array)
    def _array(self, stmt: k.Array, scope: Scope, parted: bool) -> None:
        require(stmt.size > 0, f"array {stmt.name} is empty")
        require(stmt.space is k.Space.LOCAL or not parted, f"shared array {stmt.name} where threads part")
        require(not stmt.received or stmt.space is k.Space.SHARED, f"{stmt.name} cannot be sent to")
        require(not stmt.carried or (stmt.space is k.Space.SHARED and self.program.looped),
                 f"{stmt.name} is carried from turn to turn, but no shared array of a grid loop")
        require(not stmt.packed or (stmt.space is k.Space.LOCAL and stmt.init is None and stmt.nbytes % 4 == 0),
                 f"{stmt.name} cannot be packed")
        _require_name(stmt.name)
        scope.arrays[stmt.name] = stmt.size
        if stmt.received:
            self.received.add(stmt.name)
        if stmt.packed:
            self.packed.add(stmt.name)

    @_rules(k.AllReduce, k.ArgAllReduce)
    def _reduction(self, stmt: k.AllReduce | k.ArgAllReduce, scope: Scope, parted: bool) -> None:
        for name, _ in stmt.members if isinstance(stmt, k.AllReduce) else ():
            self._mutable(name, scope)
        require(stmt.width & (stmt.width - 1) == 0 and self.threads % stmt.width == 0,
                 f"a reduction over {stmt.width} of {self.threads} threads")

    @_rules(k.SetElement)
    def _set_element(self, stmt: k.SetElement, scope: Scope, parted: bool) -> None:
        require(stmt.array not in self.received, f"{stmt.array} is written by sending")
        require(stmt.array not in self.packed, f"{stmt.array} is filled by vectors")
        product = isinstance(stmt.value, k.Apply) and stmt.value.kind is OpKind.MUL and stmt.value.dtype.is_float
        require(not stmt.fused or (product and stmt.combine is OpKind.SUM), f"what {stmt.array} adds is no product")

    @_rules(k.Send)
    def _send(self, stmt: k.Send, scope: Scope, parted: bool) -> None:
        require(stmt.array in self.received, f"{stmt.array} receives nothing")
        require(stmt.block.bounds[0] >= 0, f"block {stmt.block} of a cluster")

    @_rules(k.LoadFence)
    def _load_fence(self, stmt: k.LoadFence, scope: Scope, parted: bool) -> None:
        require(set(stmt.names) <= scope.scalars.keys() | scope.arrays.keys(), f"{stmt.names} are not declared")
        require(self.threads > 1, "loads of a CPU are not held in place")

    @_rules(k.Prefetch)
    def _prefetch(self, stmt: k.Prefetch, scope: Scope, parted: bool) -> None:
        require(self.threads == 1 or awaits_itself(self.program), "a prefetch by threads of a GPU that await nothing")

    @_rules(TileStatement)
    def _tile(self, stmt: TileStatement, scope: Scope, parted: bool) -> None:
        stmt.verify(self, scope)

    def _differs(self, index: Index, scope: Scope) -> bool:
        """Whether threads of one block may see different values."""
        return not index.names <= scope.uniform and self.threads > 1

    def _mutable(self, name: str, scope: Scope) -> None:
        require(scope.scalars.get(name, False), f"{name} is no accumulator that is declared here")

    @_rules(k.LoadVector, k.StoreVector)
    def _vector(self, stmt: k.LoadVector | k.StoreVector, scope: Scope, parted: bool) -> None:
        require(scope.arrays.get(stmt.array, 0) >= stmt.width, f"{stmt.array} cannot hold {stmt.width} elements")
        require(stmt.index.bounds[0] >= 0 and stmt.width & (stmt.width - 1) == 0,
                 f"a vector of {stmt.width} at {stmt.index}")
        require(all(c % stmt.width == 0 for _, c in stmt.index.terms) and stmt.index.offset % stmt.width == 0,
                 f"a vector of {stmt.width} at {stmt.index}, which is not a multiple of it")

    @_rules(k.AsyncCopy)
    def _async_copy(self, stmt: k.AsyncCopy, scope: Scope, parted: bool) -> None:
        buffer = self.buffers[stmt.buffer]
        require(buffer.mode is k.Mode.READ and not buffer.shared, f"{stmt.buffer} may change while it is copied")
        require(stmt.width * buffer.dtype.size == ASYNC_COPY_BYTES, f"an asynchronous copy of {stmt.width} elements")
        require(stmt.at.bounds[1] + stmt.width <= scope.arrays.get(stmt.array, 0), f"{stmt.array} is too small")
        for index in (stmt.at, stmt.index):
            require(all(c % stmt.width == 0 for c in (*(c for _, c in index.terms), index.offset)),
                     f"an asynchronous copy of {stmt.width} at {index}, which is not a multiple of it")

    def _buffer(self, name: str, writes: bool) -> None:
        require(name in self.buffers, f"buffer {name} is not declared")
        wrong = k.Mode.READ if writes else k.Mode.WRITE
        require(self.buffers[name].mode is not wrong, f"buffer {name} is declared as {self.buffers[name].mode.value}")

    def _reads(self, stmt: k.Stmt, scope: Scope) -> None:
        for part in operands(stmt):
            if isinstance(part, Index):
                self._index(part, scope)
            else:
                self._expr(part, scope)

    def _index(self, index: Index, scope: Scope) -> None:
        for v in index.variables():
            require(scope.indices.get(v.name) == v.extent, f"index {v.name} is not declared here with {v.extent}")

    def _expr(self, expr: k.Expr, scope: Scope) -> None:
        if isinstance(expr, k.Local):
            require(expr.name in scope.scalars, f"{expr.name} is not declared here")
        elif isinstance(expr, k.Load):
            self._buffer(expr.buffer, writes=False)
            self._index(expr.index, scope)
        elif isinstance(expr, k.Element):
            require(expr.array in scope.arrays, f"array {expr.array} is not declared here")
            self._index(expr.index, scope)
        elif isinstance(expr, k.FromIndex | k.InRange):
            self._index(expr.index, scope)
        elif isinstance(expr, k.Apply):
            for arg in expr.args:
                self._expr(arg, scope)
