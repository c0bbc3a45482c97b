"""The value of a node at a multi-index, as kernel IR: movement ops become index arithmetic, the rest scalars.

This is where stitching happens: a producer is evaluated where its consumer needs it, once per index and scope.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import accumulate
from typing import TypeAlias, cast

from tf_stitch.errors import ScheduleError, TooManyCopiesError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div, divides, surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.decided import decided
from tf_stitch.lowering.scaling import is_of_float8, is_rounding, rounded_for_float8
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.schedule.kernel_schedule import KernelSchedule

MultiIndex: TypeAlias = tuple[Index, ...]
Place: TypeAlias = tuple[str, Index]
"""An array that holds an element, and where in it."""

FEW_COPIES, MOST_COPIES = 1024, 8
"""How often all nodes of a kernel together are computed, at most: so often, and so often each. Kernels of the zoo's
models compute 1,769 values for 263 nodes, and 1,120 for 130."""


class Evaluator:
    """Evaluates nodes of one pattern. `reduced` and `staged` are filled by the lowering of each family."""

    def __init__(self, schedule: KernelSchedule, buffers: BufferTable, out: ScopedEmitter) -> None:
        self.pattern, self.buffers, self.out = schedule.pattern, buffers, out
        self.gpu = schedule.mapping.threads > 1
        self.reduced: dict[Node, tuple[k.Expr, Index]] = {}
        self.staged: dict[Node, dict[Index, Place]] = defaultdict(dict)  # by flat index
        self.later: dict[tuple[Node, Index], Place] = {}  # staged in this phase, readable from the next
        self.scaled: dict[Node, k.Expr] = {}  # the factor that a staged value has to be multiplied by
        self.copied: dict[Node, dict[Index, Place]] = defaultdict(dict)  # as staged, in the access at hand
        self.lane: Var | None = None  # loop over the lanes of vector accesses, while it is open
        self._rounds = rounded_for_float8(self.pattern)
        self._left = FEW_COPIES + MOST_COPIES * len(self.pattern.nodes)

    def value(self, node: Node, index: MultiIndex) -> k.Expr:
        """The element `index` of `node`, in the compute type.

        Raises:
            ScheduleError: a reduction is needed at another row than the one at hand.
            TooManyCopiesError: many nodes are needed at several indices each by the next one: a power of their number.
        """
        key = (node, index)
        known = self.out.lookup(key)
        if known is not None:
            return known
        self._left -= 1
        if self._left < 0:
            raise TooManyCopiesError("values are needed at too many places of each other", node.loc)
        value = self.out.let(self._compute(node, index), key, self.pattern.name(node))
        self.out.remember(key, value)
        return value

    def _compute(self, node: Node, index: MultiIndex) -> k.Expr:
        place = self._place(node, index)
        if place is not None:
            element = k.Element(*place, node.type.dtype.compute)
            factor = self.scaled.get(node)
            return element if factor is None else k.Apply(OpKind.MUL, (element, factor), element.dtype)
        if not self.pattern.holds(node):
            return self.load(node, linearize(index, node.type.dims))
        if node in self.reduced:
            local, row = self.reduced[node]
            if linearize(index, node.type.dims) != row:
                raise ScheduleError(f"{node.kind.value} is needed at other rows than its own", node.loc)
            return local
        if node.category is Category.ELEMENTWISE:
            return self._elementwise(node, index)
        handler = _HANDLERS.get(node.kind)
        if handler is None:
            raise ScheduleError(f"{node.kind.value} cannot be computed inside another op's loop", node.loc)
        return handler(self, node, index)

    def _place(self, node: Node, index: MultiIndex) -> Place | None:
        kept = [places[node] for places in (self.staged, self.copied) if node in places]
        if not kept:
            return None
        flat = linearize(index, node.type.dims)
        return next((places[flat] for places in kept if flat in places), None)

    def load(self, node: Node, flat: Index) -> k.Expr:
        """An element of a value from outside; by whole vectors where the lanes are neighbours."""
        buffer = self.buffers.reading(node)
        dtype = node.type.dtype.compute
        if self.lane is not None and is_vector(flat, self.lane):
            array = self.out.vector_before(self.lane, buffer, flat - var(self.lane), dtype)
            if array is not None:
                return k.Element(array, var(self.lane), dtype)
        return k.Load(buffer, flat, dtype)

    def _elementwise(self, node: Node, index: MultiIndex) -> k.Expr:
        if node.kind is OpKind.SELECT:
            condition = self.value(node.operands[0], aligned_index(index, node.operands[0].type.dims))
            if isinstance(condition, k.Literal):
                chosen = node.operands[1 if condition.value else 2]
                return self.value(chosen, aligned_index(index, chosen.type.dims))
        args = tuple(self.value(o, aligned_index(index, o.type.dims)) for o in node.operands)
        if is_rounding(node):
            return _rounded(args[0], node.type.dtype)
        known = decided(node.kind, args)
        if known is not None:
            return k.Literal(known, DType.BOOL)
        jumps = node.kind in _JUMPS or (node.kind is OpKind.POW and not isinstance(args[1], k.Literal))
        exact = node in self._rounds
        if not node.type.dtype.is_float or jumps or _casts_back(node) or is_of_float8(node) or exact:
            # A half is computed in float32, but from it the next integer, or infinity, or what it is compared with may
            # be but a rounding away. Who makes a half of a number, and a number of that, wants the rounding.
            args = tuple(arg if self._is_stored(o) or (exact and self._is_rounded(o)) else _rounded(arg, o.type.dtype)
                         for arg, o in zip(args, node.operands, strict=True))
        if exact and node.kind is OpKind.CAST:
            return k.Apply(node.kind, args, node.type.dtype)  # rounded at once
        if node.type.dtype.is_float8 and args[0].dtype is DType.F64:
            return k.Apply(node.kind, args, node.type.dtype)  # rounded at once: not to float32 on the way
        return k.Apply(node.kind, args, node.type.dtype.compute, node.type.dtype.compute is not node.type.dtype)

    def _is_stored(self, node: Node) -> bool:
        """Whether it comes from memory, at most moved on the way: it is what its type has already, and a loop would pay
        for making it that again."""
        while self.pattern.holds(node) and node.category is Category.MOVEMENT and len(node.operands) == 1:
            node = node.operands[0]
        return not self.pattern.holds(node) and node not in self.scaled

    def _is_rounded(self, node: Node) -> bool:
        """Whether it is computed as what its half type has."""
        return is_of_float8(node) or (node.kind is OpKind.CAST and node in self._rounds)

    def _constant(self, node: Node, index: MultiIndex) -> k.Expr:
        value = cast(oa.ConstantAttrs, node.attrs).value
        if value.size <= 1:  # an empty one is never read
            return _literal(value.reshape(-1)[0].item() if value.size else 0, node.type.dtype)
        return k.Load(self.buffers.constant(node), linearize(index, node.type.dims), node.type.dtype.compute)

    def _extent(self, node: Node, index: MultiIndex) -> k.Expr:
        attrs = cast(oa.ExtentAttrs, node.attrs)
        return _literal(math.prod(cast(int, d) for d in attrs.shape), attrs.dtype)

    def _iota(self, node: Node, index: MultiIndex) -> k.Expr:
        axis = cast(oa.IotaAttrs, node.attrs).axis
        at = linearize(index, node.type.dims) if axis < 0 else index[axis]
        return k.FromIndex(at, node.type.dtype.compute)

    def _broadcast(self, node: Node, index: MultiIndex) -> k.Expr:
        x = node.operands[0]
        return self.value(x, aligned_index(index, x.type.dims))

    def _reshape(self, node: Node, index: MultiIndex) -> k.Expr:
        x = node.operands[0]
        return self.value(x, delinearize(linearize(index, node.type.dims), x.type.dims))

    def _transpose(self, node: Node, index: MultiIndex) -> k.Expr:
        perm = cast(oa.TransposeAttrs, node.attrs).perm
        source = [constant(0)] * len(perm)
        for axis, p in enumerate(perm):
            source[p] = index[axis]
        return self.value(node.operands[0], tuple(source))

    def _slice(self, node: Node, index: MultiIndex) -> k.Expr:
        a = cast(oa.SliceAttrs, node.attrs)
        return self.value(node.operands[0],
                          tuple(i * s + b for i, s, b in zip(index, a.strides, a.begin, strict=True)))

    def _pad(self, node: Node, index: MultiIndex) -> k.Expr:
        """On a GPU where most is inside, what is read outside is the nearest element and not used: neither a branch
        nor loads of single elements."""
        a = cast(oa.PadAttrs, node.attrs)
        x, fill = node.operands
        source = [i - low for i, low in zip(index, a.low, strict=True)]
        beyond = [axis for axis, (i, dim) in enumerate(zip(source, x.type.dims, strict=True))
                  if dim != node.type.dims[axis] and not _surely_inside(i, dim)]
        if not beyond:
            return self.value(x, tuple(source))
        inside: list[k.Expr] = [k.InRange(index[axis], a.low[axis], a.low[axis] + x.type.dims[axis]) for axis in beyond]
        condition = reduce(lambda one, other: k.Apply(OpKind.AND, (one, other), DType.BOOL), inside)
        if self.gpu and x.type.numel and all(_mostly_inside(x.type.dims[a], node.type.dims[a]) for a in beyond):
            for axis in beyond:
                source[axis] = self._nearest(source[axis], x.type.dims[axis])
            choices = (self.out.let(condition), self.value(x, tuple(source)), self.value(fill, ()))
            return k.Apply(OpKind.SELECT, choices, node.type.dtype.compute)
        return self._choose(condition, node.type.dtype.compute, self._later(x, tuple(source)), self._later(fill, ()))

    def _windows(self, node: Node, index: MultiIndex) -> k.Expr:
        a = cast(oa.WindowsAttrs, node.attrs)
        n, p, q, r, s, c = index
        row, column = (window * stride + place * dilation for window, place, stride, dilation
                       in zip((p, q), (r, s), a.strides, a.dilations, strict=True))
        return self.value(node.operands[0], (n, row, column, c))

    def _nearest(self, index: Index, dim: int) -> Index:
        """The nearest index inside."""
        key = ("nearest", index, dim)
        known = self.out.lookup(key)
        if not isinstance(known, k.FromIndex):
            position = Var(self.out.fresh("n"), dim)
            self.out.emit_beside(k.LetIndex(position, index, dim - 1), k.FromIndex(index, DType.I64))
            known = k.FromIndex(Index(((position, 1),)) if dim > 1 else constant(0), DType.I64)
            self.out.remember(key, known)
        return known.index

    def _choose(self, condition: k.Expr, dtype: DType, then: Iterator[k.Expr], other: Iterator[k.Expr]) -> k.Expr:
        return self.out.choose(condition, dtype, then, other, select=self.gpu)

    def _concat(self, node: Node, index: MultiIndex) -> k.Expr:
        axis = cast(oa.AxisAttrs, node.attrs).axis
        low, high = index[axis].bounds
        ends = list(accumulate(x.type.dims[axis] for x in node.operands))
        parts = [(x, end - x.type.dims[axis], end) for x, end in zip(node.operands, ends, strict=True)]
        maybe = [(x, start) for x, start, end in parts
                 if not surely_less(high, start) and not surely_less(end - 1, low)]
        return self._one_of(maybe or [parts[-1][:2]], node.type.dtype.compute, index, axis)

    def _one_of(self, parts: Sequence[tuple[Node, int]], dtype: DType, index: MultiIndex, axis: int,
                by_vectors: bool = False) -> k.Expr:
        """The element of a concatenation, which is in one of some operands, each with the place where it starts; found
        by halves.

        Args:
            by_vectors: it is known to be one of these, as those of all lanes are.
        """
        if len(parts) == 1:
            (x, start), = parts
            single = self.gpu and x.type.dims[axis] == 1  # then all threads may read it
            at = constant(0) if single else index[axis] - start
            if by_vectors and not _surely_inside(at, x.type.dims[axis]):
                at = self._inside(at, x.type.dims[axis])
            return self.value(x, (*index[:axis], at, *index[axis + 1:]))
        if (self.lane is not None and self.gpu and self.out.known_before(self.lane, index)
                and _lanes_below(index[axis], self.lane, _middle(parts)) is not None):
            return self.out.vector_of(self.lane, ("part", tuple(parts), index, axis), dtype,
                                      lambda array: self._fill(array, parts, dtype, index, axis))

        def half(of: Sequence[tuple[Node, int]]) -> Iterator[k.Expr]:
            yield self._one_of(of, dtype, index, axis)

        before = k.InRange(index[axis], 0, _middle(parts))
        return self._choose(before, dtype, *map(half, _halves(parts)))

    def _fill(self, array: str, parts: Sequence[tuple[Node, int]], dtype: DType, index: MultiIndex, axis: int) -> None:
        """An array of the elements of all lanes: a branch for a vector, not for each element, and vectors inside."""
        assert self.lane is not None
        before = _lanes_below(index[axis], self.lane, _middle(parts)) if len(parts) > 1 else None
        if before is not None:
            sides = [partial(self._fill, array, half, dtype, index, axis) for half in _halves(parts)]
            self.out.branch(before, sides)
            return
        with self.out.loop(self.lane, k.Loop.UNROLL):
            value = self._one_of(parts, dtype, index, axis, by_vectors=True)
            self.out.emit(k.SetElement(array, var(self.lane), value))

    def _inside(self, at: Index, dim: int) -> Index:
        """An index of which a branch says that all its lanes are below `dim`, and not below zero."""
        lane = self.lane if self.lane in at.variables() else None
        width, first = (lane.extent, at - var(lane)) if lane else (1, at)
        place = Var(self.out.fresh("p"), ceil_div(dim, width))
        self.out.emit_beside(k.LetIndex(place, first // width, None), k.FromIndex(first, DType.I64))
        return var(place) * width + (var(lane) if lane else 0)

    def _gather(self, node: Node, index: MultiIndex) -> k.Expr:
        """params[indices]. An index outside is an error on a CPU and reads as zero on a GPU, as in TensorFlow."""
        params, indices = node.operands
        row = self.value(indices, index[:indices.type.rank])
        count = params.type.dims[0]
        key = ("gathered", row, count)
        at = self.out.lookup(key)
        if not isinstance(at, k.FromIndex):
            position = Var(self.out.fresh("g"), count)
            zero, size = _literal(0, indices.type.dtype), _literal(count, indices.type.dtype)
            inside = k.Apply(OpKind.AND, (k.Apply(OpKind.GREATER_EQUAL, (row, zero), DType.BOOL),
                                          k.Apply(OpKind.LESS, (row, size), DType.BOOL)), DType.BOOL)
            if not self.gpu:
                self.out.emit_beside(k.Fail(inside), row)
            self.out.emit_beside(k.LetIndex(position, row, count - 1), row)
            at = k.FromIndex(Index(((position, 1),)), DType.I64)
            self.out.remember(key, at)
            if self.gpu:
                self.out.remember((key, "inside"), self.out.let(inside))
        value = self.value(params, (at.index, *index[indices.type.rank:]))
        found = self.out.lookup((key, "inside"))
        if not self.gpu or found is None:
            return value
        return k.Apply(OpKind.SELECT, (found, value, _literal(0, node.type.dtype)), node.type.dtype.compute)

    def _later(self, node: Node, index: MultiIndex) -> Iterator[k.Expr]:
        yield self.value(node, index)


_HANDLERS = {
    OpKind.CONSTANT: Evaluator._constant,
    OpKind.EXTENT: Evaluator._extent,
    OpKind.IOTA: Evaluator._iota,
    OpKind.BROADCAST: Evaluator._broadcast,
    OpKind.RESHAPE: Evaluator._reshape,
    OpKind.TRANSPOSE: Evaluator._transpose,
    OpKind.SLICE: Evaluator._slice,
    OpKind.PAD: Evaluator._pad,
    OpKind.WINDOWS: Evaluator._windows,
    OpKind.CONCAT: Evaluator._concat,
    OpKind.GATHER: Evaluator._gather,
}


def _surely_inside(index: Index, dim: int) -> bool:
    low, high = index.bounds
    return surely_less(-1, low) and surely_less(high, dim)


def _mostly_inside(dim: int, padded: int) -> bool:
    return not isinstance(dim, SymbolicDim) and not isinstance(padded, SymbolicDim) and padded <= 2 * dim


def is_vector(flat: Index, lane: Var) -> bool:
    """Whether the lanes are neighbours and the first is at a multiple of the vector's width."""
    base = flat - var(lane)
    return flat.coefficient(lane) == 1 and divides(lane.extent, base.offset) and all(
        divides(lane.extent, c) for _, c in base.terms)


def _halves(parts: Sequence[tuple[Node, int]]) -> tuple[Sequence[tuple[Node, int]], Sequence[tuple[Node, int]]]:
    middle = (len(parts) + 1) // 2
    return parts[:middle], parts[middle:]


def _middle(parts: Sequence[tuple[Node, int]]) -> int:
    """Where the second half of parts starts."""
    return _halves(parts)[1][0][1]


def _lanes_below(index: Index, lane: Var, end: int) -> k.InRange | None:
    """The condition that an index is below `end` in all lanes, by vectors; None where lanes may differ."""
    if lane not in index.variables():
        return k.InRange(index, 0, end)
    if not is_vector(index, lane) or not divides(lane.extent, end):
        return None
    return k.InRange((index - var(lane)) // lane.extent, 0, end // lane.extent)


_JUMPS = frozenset({OpKind.SIGN, OpKind.FLOOR, OpKind.CEIL, OpKind.RINT, OpKind.FLOOR_DIV, OpKind.FLOOR_MOD,
                    OpKind.TRUNC_MOD, OpKind.TAN, OpKind.LGAMMA})
"""Ops that give real numbers, and very different ones for numbers that differ by a rounding: steps, and poles. So do
powers of negative numbers: with exponents that are no integers they are NaN."""


def _casts_back(node: Node) -> bool:
    """Whether it takes a half to another type that was cast to the half before, and at most moved since; or that is the
    largest or smallest of halves, and so one of them."""
    if node.kind is not OpKind.CAST:
        return False
    half = source = node.operands[0]
    while source.category is Category.MOVEMENT and source.operands:
        source = source.operands[0]
    return (half.type.dtype.compute is not half.type.dtype and node.type.dtype is not half.type.dtype
            and source.kind in (OpKind.CAST, OpKind.MAX, OpKind.MIN))


def aligned_index(index: MultiIndex, dims: Sequence[int]) -> MultiIndex:
    """The operand's index under NumPy broadcasting."""
    tail = index[len(index) - len(dims):]
    return tuple(constant(0) if d == 1 else i for i, d in zip(tail, dims, strict=True))


def _rounded(value: k.Expr, dtype: DType) -> k.Expr:
    """A computed value as its element type has it."""
    if dtype.compute is dtype or isinstance(value, k.Load | k.Literal):
        return value
    return k.Apply(OpKind.CAST, (value,), dtype)


def _literal(value: float | int | bool, dtype: DType) -> k.Literal:
    return k.Literal(value, dtype.compute)
