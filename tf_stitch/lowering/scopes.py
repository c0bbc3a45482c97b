"""Emits statements into nested scopes; a let goes to the outermost scope that knows everything it reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, var

_WAITS = (k.For, k.AllReduce, k.Barrier)


@dataclass
class _Scope:
    statements: list[k.Stmt] = field(default_factory=list)
    memo: dict[Hashable, k.Expr] = field(default_factory=dict)
    floor: int = 0  # depth of the innermost scope that runs only sometimes: nothing may move out of it
    first_wait: int | None = None  # place of the first loop or barrier; there may be thousands of statements before it

    def append(self, stmt: k.Stmt) -> None:
        if self.first_wait is None and isinstance(stmt, _WAITS):
            self.first_wait = len(self.statements)
        self.statements.append(stmt)

    def insert_load(self, load: k.Let, index: Index) -> None:
        """Before the first loop or barrier behind what it reads, so that it is under way together with theirs, not
        waited for after them."""
        if self.first_wait is None:
            self.statements.append(load)
            return
        names = {v.name for v in index.variables()}
        first = self.first_wait
        for at in range(first, len(self.statements)):
            stmt = self.statements[at]
            if isinstance(stmt, k.LetIndex) and stmt.var.name in names:
                first = at + 1
        waits = (at for at in range(first, len(self.statements)) if isinstance(self.statements[at], _WAITS))
        at = next(waits, len(self.statements))
        self.first_wait += at == self.first_wait
        self.statements.insert(at, load)


class ScopedEmitter:
    """A stack of open scopes. Values are memoised in the scope that holds them, and forgotten with it."""

    def __init__(self, size_of: Callable[[str], int]) -> None:
        """`size_of` gives a buffer's elements: a load that cannot leave its buffer may move out of a guard."""
        self._size_of = size_of
        self._scopes = [_Scope()]
        self._depth_of: dict[str, int] = {k.BLOCK: 0, k.THREAD: 0}
        self._numbers = count()

    @property
    def statements(self) -> tuple[k.Stmt, ...]:
        """What was emitted; all loops have to be closed."""
        assert len(self._scopes) == 1
        return tuple(self._scopes[0].statements)

    def fresh(self, stem: str) -> str:
        return f"{stem}{next(self._numbers)}"

    def emit(self, stmt: k.Stmt) -> None:
        """Appends to the innermost scope."""
        self._scopes[-1].append(stmt)
        if isinstance(stmt, k.Accumulator | k.Array):
            self._depth_of[stmt.name] = len(self._scopes) - 1
        elif isinstance(stmt, k.LetIndex):
            self._depth_of[stmt.var.name] = len(self._scopes) - 1

    def let(self, value: k.Expr, key: Hashable = None, note: str = "") -> k.Expr:
        """A scalar for `value`, that of the user's node `note`, as far out as it can live; remembered under `key`."""
        if isinstance(value, k.Literal | k.Local | k.FromIndex):
            return value
        depth = self._expr_depth(value)
        if not self._harmless(value):
            depth = max(depth, self._scopes[-1].floor)
        key = value if key is None else key
        known = self._scopes[depth].memo.get(key)
        if known is not None:
            return known
        name = self.fresh("v")
        scope, declared = self._scopes[depth], k.Let(name, value, note)
        if isinstance(value, k.Load):
            scope.insert_load(declared, value.index)
        else:
            scope.append(declared)
        self._depth_of[name] = depth
        local = k.Local(name, value.dtype)
        self._scopes[depth].memo[key] = local
        return local

    def lookup(self, key: Hashable) -> k.Expr | None:
        for scope in reversed(self._scopes):
            if key in scope.memo:
                return scope.memo[key]
        return None

    def remember(self, key: Hashable, value: k.Expr) -> None:
        """Memoises in the innermost scope that `value` depends on."""
        self._scopes[max(self._expr_depth(value), self._scopes[-1].floor)].memo[key] = value

    def clamped(self, name: str, index: Index, extent: int) -> Index:
        """A variable equal to `index` where that is below `extent`; its bounds are known, so divisions cancel. The same
        variable where it is asked for again."""
        variable = Var(name, extent)
        key = ("clamped", variable, index)
        if self.lookup(key) is None:
            self.emit(k.LetIndex(variable, index, extent - 1))
            self._scopes[-1].memo[key] = k.FromIndex(var(variable), DType.I64)
        return var(variable)

    def below(self, name: str, index: Index, extent: int) -> Index:
        """A variable equal to `index`, which is below `extent` where the loop's limit lets it run."""
        variable = Var(name, extent)
        self.emit(k.LetIndex(variable, index, None))
        return var(variable)

    def emit_beside(self, stmt: k.Stmt, value: k.Expr) -> None:
        """Appends to the outermost scope that knows `value`."""
        depth = max(self._expr_depth(value), self._scopes[-1].floor)
        self._scopes[depth].append(stmt)
        if isinstance(stmt, k.LetIndex):
            self._depth_of[stmt.var.name] = depth

    def vector_before(self, lane: Var, buffer: str, base: Index, dtype: DType) -> str | None:
        """An array of one vector, loaded just before the loop over `lane`; None where that would be wrong: a
        guard in between, or a base that is known only inside."""
        outside = self._depth_of[lane.name] - 1
        if self._scopes[-1].floor > outside or self._index_depth(base) > outside:
            return None
        scope = self._scopes[outside]
        key = ("vector", buffer, base)
        if key not in scope.memo:
            array = self.fresh("x")
            scope.statements += [k.Array(array, dtype, lane.extent),
                                 k.LoadVector(array, constant(0), buffer, base, lane.extent)]
            self._depth_of[array] = outside
            scope.memo[key] = k.Element(array, var(lane), dtype)
        element = scope.memo[key]
        assert isinstance(element, k.Element)
        return element.array

    @contextmanager
    def loop(self, over: Var, kind: k.Loop, limit: Index | None = None, together: int = k.TOGETHER) -> Iterator[None]:
        """Statements inside become the body of a For; a loop of one iteration leaves no trace."""
        if over.extent == 1 and limit is None:
            yield
            return
        # Nothing moves out of a loop that may run no iteration (a SIMD loop with a limit always runs one).
        with self._scope(guarded=over.extent == 0 or (limit is not None and kind is not k.Loop.SIMD)) as scope:
            self._depth_of[over.name] = len(self._scopes) - 1
            yield
        self.emit(k.For(over, tuple(scope.statements), kind, limit, together))

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """Values that are computed inside are computed again where they are needed later, for what they were computed
        from changes. A loop of one iteration has no scope that would forget them."""
        before = [set(scope.memo) for scope in self._scopes]
        yield
        for scope, known in zip(self._scopes, before, strict=True):
            scope.memo = {key: value for key, value in scope.memo.items()
                          if key in known or isinstance(value, k.FromIndex)}

    @contextmanager
    def element(self, position: Sequence[Var], *scalars: str) -> Iterator[list[k.Stmt]]:
        """Statements inside are collected: what becomes of one element, mutable scalars, at any position."""
        with self._scope(guarded=False) as scope:
            self._depth_of |= dict.fromkeys((*scalars, *(v.name for v in position)), len(self._scopes) - 1)
            yield scope.statements

    @contextmanager
    def when(self, condition: k.Expr | None) -> Iterator[None]:
        """Statements inside run if the condition holds; None always holds."""
        if condition is None:
            yield
            return
        with self._scope(guarded=True) as scope:
            yield
        self.emit(k.If(condition, tuple(scope.statements)))

    def choose(self, condition: k.Expr, dtype: DType, then: Iterator[k.Expr], other: Iterator[k.Expr], select: bool
               ) -> k.Expr:
        """A variable that gets one of two values; only the chosen side is evaluated (`then` and `other` are
        one-element generators, run inside their branch).

        Args:
            select: no branches where both values are at hand.
        """
        name = self.fresh("c")
        sides: list[tuple[list[k.Stmt], k.Expr]] = []
        for side in (then, other):
            with self._scope(guarded=True) as scope:
                value = next(side)
            sides.append((scope.statements, value))
        if select and not any(statements for statements, _ in sides):
            return self.let(k.Apply(OpKind.SELECT, (condition, *(value for _, value in sides)), dtype))
        branches = [(*statements, k.Assign(name, value)) for statements, value in sides]
        self.emit(k.Accumulator(name, dtype, 0))
        self.emit(k.If(condition, branches[0], branches[1]))
        return k.Local(name, dtype)

    def known_before(self, lane: Var, indices: Sequence[Index]) -> bool:
        """Whether what depends on indices can be computed before the loop over `lane`, for all lanes: no guard is in
        between, and nothing else is known only inside."""
        outside = self._depth_of[lane.name] - 1
        others = [v for index in indices for v in index.variables() if v != lane]
        return self._scopes[-1].floor <= outside and all(self._depth_of[v.name] <= outside for v in others)

    def vector_of(self, lane: Var, key: Hashable, dtype: DType, fill: Callable[[str], None]) -> k.Expr:
        """An element of a vector that `fill` computes for all lanes before the loop over `lane`, given its array."""
        depth = self._depth_of[lane.name]
        scope, inner = self._scopes[depth - 1], self._scopes[depth:]
        if key not in scope.memo:
            del self._scopes[depth:]
            try:
                array = self.fresh("x")
                self.emit(k.Array(array, dtype, lane.extent))
                fill(array)
            finally:
                self._scopes += inner
            self._depth_of[lane.name] = depth
            scope.memo[key] = k.Element(array, var(lane), dtype)
        return scope.memo[key]

    def branch(self, condition: k.Expr, sides: Sequence[Callable[[], None]]) -> None:
        """What one of two sides emits runs, the first one if the condition holds."""
        bodies = []
        for side in sides:
            with self._scope(guarded=True) as scope:
                side()
            bodies.append(tuple(scope.statements))
        self.emit(k.If(condition, *bodies))

    @contextmanager
    def _scope(self, guarded: bool) -> Iterator[_Scope]:
        scope = _Scope(floor=len(self._scopes) if guarded else self._scopes[-1].floor)
        self._scopes.append(scope)
        try:
            yield scope
        finally:
            self._scopes.pop()

    def _harmless(self, expr: k.Expr) -> bool:
        """Whether evaluating it is safe where nobody asked for it."""
        if isinstance(expr, k.Load):
            low, high = expr.index.bounds
            return surely_less(-1, low) and surely_less(high, self._size_of(expr.buffer))
        if isinstance(expr, k.Apply):
            return all(self._harmless(a) for a in expr.args)
        return not isinstance(expr, k.Element)  # an array may not be filled yet

    def _expr_depth(self, expr: k.Expr) -> int:
        if isinstance(expr, k.Literal):
            return 0
        if isinstance(expr, k.Local):
            return self._depth_of[expr.name]
        if isinstance(expr, k.FromIndex | k.InRange | k.Load):
            return self._index_depth(expr.index)
        if isinstance(expr, k.Element):
            return max(self._depth_of[expr.array], self._index_depth(expr.index))
        return max((self._expr_depth(a) for a in expr.args), default=0)

    def _index_depth(self, index: Index) -> int:
        return max((self._depth_of[v.name] for v in index.variables()), default=0)
