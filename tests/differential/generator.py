"""Random graphs of tensor IR ops, with inputs on which every op is defined and well conditioned."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from tests.differential.runner import Values, region
from tf_stitch.errors import TypeRuleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, key_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.types import broadcast_shapes

K = OpKind
FLOATS = (DType.F32, DType.F32, DType.F32, DType.F16, DType.BF16, DType.F64)
INTEGERS = (DType.I32, DType.I64)
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 24, 33, 64)
T = TypeVar("T")

# Range into which the operand of an op is clamped first, so that errors stay small.
UNARY_RANGE: dict[OpKind, tuple[float, float]] = {
    K.EXP: (-4, 4), K.EXPM1: (-4, 4), K.LOG: (0.25, 8), K.LOG1P: (-0.5, 8), K.SQRT: (0.25, 8), K.RSQRT: (0.25, 8),
    K.RECIPROCAL: (0.25, 8), K.TANH: (-8, 8), K.SIGMOID: (-8, 8), K.ERF: (-4, 4), K.ERFC: (-4, 2), K.SIN: (-4, 4),
    K.COS: (-4, 4), K.TAN: (-1, 1), K.ASIN: (-0.9, 0.9), K.ACOS: (-0.9, 0.9), K.ATAN: (-8, 8), K.SINH: (-4, 4),
    K.COSH: (-4, 4), K.ASINH: (-8, 8), K.ACOSH: (1.25, 8), K.ATANH: (-0.9, 0.9), K.LGAMMA: (2.25, 8),
}
EXACT_UNARY = (K.NEG, K.ABS)
STEPS = (K.FLOOR, K.CEIL, K.RINT, K.SIGN)
FLOAT_BINARY = (K.ADD, K.SUB, K.MUL, K.DIV, K.MAXIMUM, K.MINIMUM, K.POW, K.ATAN2)
INTEGER_BINARY = (K.ADD, K.SUB, K.MUL, K.DIV, K.FLOOR_DIV, K.FLOOR_MOD, K.TRUNC_MOD, K.MAXIMUM, K.MINIMUM,
                  K.AND, K.OR, K.XOR)
DIVISIONS = (K.DIV, K.FLOOR_DIV, K.FLOOR_MOD, K.TRUNC_MOD)
COMPARISONS = (K.LESS, K.LESS_EQUAL, K.GREATER, K.GREATER_EQUAL, K.EQUAL, K.NOT_EQUAL)


@dataclass(frozen=True)
class Value:
    """A node; `exact` if rounding plays no part in it, so that comparing it is no matter of luck."""

    node: Node
    exact: bool

    @property
    def dtype(self) -> DType:
        return self.node.type.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        return self.node.type.dims


class GraphMaker:
    """Draws one graph.

    Attributes:
        lengths: of axes.
    """

    lengths: Sequence[int] = SIZES

    def __init__(self, rng: random.Random, max_elements: int) -> None:
        self.rng, self.max_elements = rng, max_elements
        self.b = Builder()
        self.values: list[Value] = []
        self.variables: list[Value] = []

    def one(self, options: Sequence[T]) -> T:
        return options[self.rng.randrange(len(options))]

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    # Sources.
    def shape(self) -> tuple[int, ...]:
        dims: list[int] = []
        for _ in range(self.number(0, 4)):
            room = self.max_elements // math.prod(dims)
            dims.append(self.one([s for s in self.lengths if s <= room]))
        return tuple(dims)

    def fresh(self, dtype: DType, shape: tuple[int, ...]) -> Value:
        n = len(self.values)
        if self.number(0, 4) == 0:
            value = Value(self.b.variable(f"v{n}", dtype, shape), True)
            self.variables.append(value)
        elif self.number(0, 5) == 0 and math.prod(shape) <= 64:
            array = np.random.default_rng(n).integers(-3, 4, shape)
            value = Value(self.b.constant(array != 0 if dtype is DType.BOOL else array, dtype), True)
        else:
            value = Value(self.b.input(f"x{n}:0", dtype, shape), True)
        self.values.append(value)
        return value

    def pick(self, wanted: Callable[[Value], bool], dtypes: Sequence[DType]) -> Value:
        """A value that fits, or a new input."""
        fitting = [v for v in self.values if v.dtype in dtypes and wanted(v)]
        if fitting and self.number(0, 7):
            return fitting[-1 - self.number(0, min(len(fitting) - 1, 6))]
        dtype: DType = self.one(dtypes)
        for _ in range(8):
            value = Value(self.b.input("probe", dtype, shape := self.shape()), True)
            if wanted(value):
                return self.fresh(dtype, shape)
        return self.fresh(dtype, (2, 3)) if not fitting else fitting[-1]

    def keep(self, node: Node, exact: bool) -> None:
        self.values.append(Value(node, exact))

    def partner(self, v: Value) -> Value:
        """A value of the same dtype that broadcasts with v: another, a scalar, a new one of a similar shape."""
        def fits(other: Value) -> bool:
            try:
                return math.prod(broadcast_shapes([v.dims, other.dims])) <= self.max_elements
            except TypeRuleError:
                return False

        fitting = [o for o in self.values if o.dtype is v.dtype and fits(o)]
        if self.number(0, 2) and fitting:
            return self.one(fitting)
        dims = [1 if self.number(0, 3) == 0 else d for d in v.dims]
        return self.fresh(v.dtype, tuple(dims[self.number(0, len(dims)):]))

    def clamp(self, node: Node, low: float, high: float) -> Node:
        return self.b.minimum(self.b.maximum(node, self.b.scalar_like(low, node)), self.b.scalar_like(high, node))

    # Ops.
    def unary(self) -> None:
        v = self.pick(lambda v: True, FLOATS)
        kind: OpKind = self.one([*UNARY_RANGE, *EXACT_UNARY])
        if kind in EXACT_UNARY:
            self.keep(self.b.op(kind, v.node), v.exact)
        else:
            self.keep(self.b.op(kind, self.clamp(v.node, *UNARY_RANGE[kind])), False)

    def step(self) -> None:
        v = self.pick(lambda v: v.exact, FLOATS)
        kind = self.one([*STEPS, K.IS_NAN, K.IS_INF, K.IS_FINITE])
        self.keep(self.b.op(kind, v.node), True)

    def integer_unary(self) -> None:
        v = self.pick(lambda v: True, INTEGERS)
        self.keep(self.b.op(self.one([K.NEG, K.ABS, K.SIGN, K.INVERT]), v.node), True)

    def float_binary(self) -> None:
        v = self.pick(lambda v: True, FLOATS)
        kind: OpKind = self.one(FLOAT_BINARY)
        other = self.partner(v)
        x, y = v.node, other.node
        if kind is K.DIV:
            y = self.b.add(self.b.op(K.ABS, self.clamp(y, -8, 8)), self.b.scalar_like(0.5, y))
        elif kind is K.POW:
            x, y = self.clamp(x, 0.5, 3), self.clamp(y, -2, 2)
        elif kind is K.ATAN2:
            y = self.b.add(self.b.op(K.ABS, self.clamp(y, -8, 8)), self.b.scalar_like(0.5, y))
        elif kind is K.MUL:
            x = self.clamp(x, -8, 8)
        exact = kind in (K.MAXIMUM, K.MINIMUM) and v.exact and other.exact
        self.keep(self.b.op(kind, x, y), exact)

    def integer_binary(self) -> None:
        v = self.pick(lambda v: True, INTEGERS)
        kind: OpKind = self.one(INTEGER_BINARY)
        y = self.partner(v).node
        if kind in DIVISIONS:
            y = self.b.op(K.OR, y, self.b.scalar_like(1, y))
        self.keep(self.b.op(kind, v.node, y), True)

    def compare(self) -> None:
        v = self.pick(lambda v: v.exact, (*FLOATS, *INTEGERS))
        other = self.partner(v)
        if other.exact:
            self.keep(self.b.op(self.one(COMPARISONS), v.node, other.node), True)

    def boolean(self) -> None:
        v = self.pick(lambda v: True, (DType.BOOL,))
        kind: OpKind = self.one([K.AND, K.OR, K.XOR, K.LOGICAL_NOT])
        operands = (v.node,) if kind is K.LOGICAL_NOT else (v.node, self.partner(v).node)
        self.keep(self.b.op(kind, *operands), True)

    def select(self) -> None:
        v = self.pick(lambda v: True, (*FLOATS, *INTEGERS))
        other = self.partner(v)
        shape = broadcast_shapes([v.dims, other.dims])

        def fits(c: Value) -> bool:
            try:
                return math.prod(broadcast_shapes([c.dims, shape])) <= self.max_elements
            except TypeRuleError:
                return False

        condition = self.pick(fits, (DType.BOOL,))
        if fits(condition):
            self.keep(self.b.select(condition.node, v.node, other.node), v.exact and other.exact)

    def cast(self) -> None:
        target: DType = self.one([*FLOATS, *INTEGERS, DType.BOOL])
        v = self.pick(lambda v: v.exact or target.is_float, (*FLOATS, *INTEGERS, DType.BOOL))
        node = v.node
        if target.is_float and v.dtype.is_integer:  # exact in every float type
            node = self.b.op(K.FLOOR_MOD, node, self.b.scalar_like(61, node))
        narrow = v.dtype.is_float and target.size < v.dtype.size
        self.keep(self.b.cast(node, target), v.exact and not (narrow and target.is_float))

    def movement(self) -> None:
        v = self.pick(lambda v: len(v.dims) > 0, (*FLOATS, *INTEGERS, DType.BOOL))
        if not v.dims:
            return
        kind = self.one([K.BROADCAST, K.RESHAPE, K.TRANSPOSE, K.SLICE, K.PAD, K.CONCAT, K.GATHER])
        node = {K.BROADCAST: self._broadcast, K.RESHAPE: self._reshape, K.TRANSPOSE: self._transpose,
                K.SLICE: self._slice, K.PAD: self._pad, K.CONCAT: self._concat, K.GATHER: self._gather}[kind](v)
        if node.type.numel <= 2 * self.max_elements:
            self.keep(node, v.exact)

    def _broadcast(self, v: Value) -> Node:
        front = (self.number(1, 4),) * self.number(0, 1)
        room = self.max_elements // max(v.node.type.numel * math.prod(front), 1)
        dims = [max(1, min(room, self.number(1, 5))) if d == 1 and i == 0 else d for i, d in enumerate(v.dims)]
        return self.b.broadcast(v.node, (*front, *dims))

    def _reshape(self, v: Value) -> Node:
        left = v.node.type.numel
        shape: list[int] = []
        while left > 1 and len(shape) < 3:
            divisors = [d for d in range(1, left + 1) if left % d == 0]
            shape.append(self.one(divisors))
            left //= shape[-1]
        return self.b.reshape(v.node, (*shape, left))

    def _transpose(self, v: Value) -> Node:
        return self.b.transpose(v.node, self.rng.sample(range(len(v.dims)), len(v.dims)))

    def _slice(self, v: Value) -> Node:
        begin, strides, sizes = [], [], []
        for dim in v.dims:
            stride: int = self.one([1, 1, 2, 3, -1, -2])
            first = self.number(0, dim - 1)
            most = (dim - 1 - first) // stride + 1 if stride > 0 else first // -stride + 1
            begin.append(first)
            strides.append(stride)
            sizes.append(self.number(1, most))
        return self.b.slice(v.node, begin, strides, tuple(sizes))

    def _pad(self, v: Value) -> Node:
        fill = self.b.scalar_like(self.number(0, 1), v.node)
        return self.b.pad(v.node, fill, [self.number(0, 2) for _ in v.dims], [self.number(0, 2) for _ in v.dims])

    def _concat(self, v: Value) -> Node:
        axis = self.number(0, len(v.dims) - 1)
        same = [o for o in self.values if o.dtype is v.dtype and len(o.dims) == len(v.dims) and o.exact >= v.exact
                and all(i == axis or a == b for i, (a, b) in enumerate(zip(o.dims, v.dims, strict=True)))]
        return self.b.concat([v.node, *(self.one(same).node for _ in range(self.number(1, 2)))], axis)

    def _gather(self, v: Value) -> Node:
        indices = self.pick(lambda i: i.node.type.numel <= 8, INTEGERS).node
        safe = self.b.op(K.FLOOR_MOD, indices, self.b.scalar_like(v.dims[0], indices))
        return self.b.op(K.GATHER, v.node, safe)

    def reduction(self) -> None:
        v = self.pick(lambda v: len(v.dims) > 0, (*FLOATS, *INTEGERS, DType.BOOL))
        if not v.dims:
            return
        axes = sorted({self.number(0, len(v.dims) - 1) for _ in range(self.number(1, 3))})
        keep = self.number(0, 1) == 1
        node, exact = v.node, v.exact
        if v.dtype is DType.BOOL:
            kind: OpKind = self.one([K.ANY, K.ALL])
        else:
            kind = self.one([K.SUM, K.SUM, K.SUM, K.MAX, K.MAX, K.MIN, K.PROD])
        if v.dtype.is_float and kind is K.PROD:
            # Products of many terms stay in float32's range, and so do those of any part of them.
            most = min(0.25, 32 / max(math.prod(int(v.dims[axis]) for axis in axes), 1))
            node = self.clamp(node, 1 - most, 1 + most)
        if v.dtype.is_float and kind in (K.SUM, K.PROD):
            exact = False
        self.keep(self.b.reduce(kind, node, axes, keep), exact)

    def arg_reduction(self) -> None:
        v = self.pick(lambda v: v.exact and len(v.dims) > 0, (*FLOATS, *INTEGERS))
        if v.dims and v.exact:
            kind, dtype = self.one([K.ARGMAX, K.ARGMIN]), self.one(INTEGERS)
            self.keep(self.b.arg_reduce(kind, v.node, self.number(0, len(v.dims) - 1), dtype), True)

    def scan(self) -> None:
        v = self.pick(lambda v: len(v.dims) > 0, (*FLOATS, *INTEGERS))
        if v.dims:
            node = self.b.cumsum(v.node, self.number(0, 1) == 1, self.number(0, 1) == 1)
            self.keep(node, v.exact and not v.dtype.is_float)

    def iota(self) -> None:
        shape = self.shape()
        if shape:
            self.keep(self.b.iota(shape, self.number(0, len(shape) - 1), self.one([*INTEGERS, DType.F32])), True)

    def softmax(self) -> None:
        v = self.pick(lambda v: len(v.dims) > 0, FLOATS)
        if v.dims:
            axis = self.number(0, len(v.dims) - 1)
            shifted = self.b.sub(v.node, self.b.reduce(K.MAX, v.node, [axis], True))
            e = self.b.exp(shifted)
            self.keep(self.b.div(e, self.b.sum(e, [axis], True)), False)

    def normalise(self) -> None:
        v = self.pick(lambda v: len(v.dims) > 0, FLOATS)
        if v.dims:
            axes = [self.number(0, len(v.dims) - 1)]
            centred = self.b.sub(v.node, self.b.mean(v.node, axes, True))
            variance = self.b.mean(self.b.square(centred), axes, True)
            scale = self.b.op(K.RSQRT, self.b.add(variance, self.b.scalar_like(0.5, variance)))
            self.keep(self.b.mul(centred, scale), False)

    def update(self) -> None:
        """A value of a variable's type, from the variable."""
        if self.variables:
            v: Value = self.one(self.variables)
            if v.dtype.is_float:
                self.keep(self.b.add(self.b.mul(v.node, self.b.scalar_like(0.5, v.node)),
                                     self.b.scalar_like(1, v.node)), False)

    STEPS_BY_WEIGHT = (unary, unary, unary, step, integer_unary, float_binary, float_binary, float_binary, float_binary,
                       integer_binary, integer_binary, compare, boolean, select, cast, movement, movement, movement,
                       movement, reduction, reduction, reduction, arg_reduction, scan, iota, softmax, normalise, update)

    def graph(self, steps: int) -> TensorGraph:
        for _ in range(steps):
            self.one(self.STEPS_BY_WEIGHT)(self)
        used = {o for v in self.values for o in v.node.operands}
        made = [v.node for v in self.values if v.node.operands]
        outputs = [n for n in made if n not in used or self.number(0, 7) == 0]
        if not outputs:
            outputs = [self.b.neg(self.fresh(DType.F32, (3, 5)).node)]
        outputs = list(dict.fromkeys(outputs))
        assigns: dict[str, Node] = {}
        for variable in self.variables:
            fitting = [n for n in [*made, *(v.node for v in self.variables)] if n.type == variable.node.type]
            if fitting and self.number(0, 3):
                assigns[key_of(variable.node)] = self.one(fitting)
        if self.variables and self.number(0, 5) == 0:
            outputs.append(self.one(self.variables).node)
        return region("random", outputs, assigns)


@dataclass(frozen=True)
class Case:
    """A graph and values for it, printed as text."""

    graph: TensorGraph
    values: Values

    def __repr__(self) -> str:
        return "\n" + format_graph(self.graph)


def make_case(rng: random.Random, max_steps: int, max_elements: int) -> Case:
    """A graph of up to `max_steps` steps (a step makes one to seven nodes)."""
    graph = GraphMaker(rng, max_elements).graph(rng.randint(1, max_steps))
    return Case(graph, values_for(graph, rng.randint(0, 1 << 16)))


def cases(max_steps: int = 14, max_elements: int = 400) -> st.SearchStrategy[Case]:
    """Cases that hypothesis can shrink."""
    return st.randoms(use_true_random=False).map(lambda rng: make_case(rng, max_steps, max_elements))


def values_for(graph: TensorGraph, seed: int) -> Values:
    """Quarters between -4 and 4, exact in every type; small integers; coins."""
    rng = np.random.default_rng(seed)
    values: Values = {}
    for node in graph.inputs():
        t = node.type
        quarters = rng.integers(-16, 17, t.dims)
        if t.dtype is DType.BOOL:
            values[key_of(node)] = np.asarray(quarters > 0)
        elif t.dtype.is_integer:
            values[key_of(node)] = np.asarray(quarters).astype(t.dtype.numpy)
        else:
            values[key_of(node)] = np.asarray(quarters / 4).astype(t.dtype.numpy)
    return values


