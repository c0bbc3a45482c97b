"""Small graphs whose kernels, made by tf_stitch itself, show one property of a device each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.planning.free_nodes import free_nodes, plannable
from tf_stitch.planning.pattern import make_pattern

B = Builder()
F32, F64, I32, I64 = DType.F32, DType.F64, DType.I32, DType.I64

UNARY = (K.NEG, K.ABS, K.SIGN, K.EXP, K.EXPM1, K.LOG, K.LOG1P, K.SQRT, K.RSQRT, K.RECIPROCAL, K.TANH, K.SIGMOID, K.ERF,
         K.ERFC, K.SIN, K.COS, K.ATAN, K.FLOOR, K.RINT)
BINARY = (K.MUL, K.DIV, K.FLOOR_MOD, K.POW, K.MAXIMUM, K.MINIMUM)
MEASURED: dict[DType, tuple[K, ...]] = {
    F32: (K.ADD, K.SELECT, *UNARY, *BINARY),
    F64: (K.ADD, K.MUL, K.DIV, K.SQRT, K.EXP, K.LOG, K.TANH),
    DType.BF16: (K.ADD, K.EXP, K.SIGMOID, K.ERFC),
    I32: (K.ADD, K.MUL, K.MAXIMUM, K.FLOOR_DIV, K.FLOOR_MOD),
    I64: (K.ADD, K.MUL, K.MAXIMUM),
}
"""Ops whose rates a profile holds; the others are taken from theirs."""


@dataclass(frozen=True)
class Chain:
    """A kernel that does an op `count` times to each of `elements` elements, and the sum of the results."""

    dtype: DType
    op: K
    count: int
    elements: int


def program_of(outputs: Iterable[Node], device: DeviceSpec) -> Program:
    """The one kernel of everything that the outputs need."""
    graph = TensorGraph("calibration", [(f"o{i}", node) for i, node in enumerate(outputs)])
    nodes = graph.nodes()
    free = free_nodes(nodes)
    wanted = frozenset(node for _, node in graph.outputs)
    return compile_pattern(make_pattern(plannable(graph, free), users_of(nodes), wanted, free), device).program


def empty() -> Node:
    """Stores a few numbers, reads nothing."""
    return B.cast(B.iota((32,), 0, I32), F32)


def stream(nbytes: int) -> Node:
    """Reads half of the bytes and writes as many."""
    return B.add(B.input("x", F32, (nbytes // 8,)), B.constant(1, F32))


def gather(elements: int, table: int) -> Node:
    """Elements from a table of `table` elements, a power of two, none near the one before."""
    spread = B.mul(B.iota((elements,), 0, I32), B.constant(-1640531535, I32))
    return B.op(K.GATHER, B.input("table", F32, (table,)), B.op(K.AND, spread, B.constant(table - 1, I32)))


def chain(spec: Chain) -> Node:
    """The sum over i of op(x + c_i); for ADD the op is left out. Integers meet in an exclusive or: compilers would
    multiply instead of adding again and again."""
    meet = K.ADD if spec.dtype.is_float else K.XOR
    x, y = (B.input(name, spec.dtype, (spec.elements,)) for name in "xy")
    total = y
    for i in range(spec.count):
        moved = B.add(x, B.constant(i * 1e-3 if spec.dtype.is_float else i + 1, spec.dtype))
        total = B.op(meet, total, _apply(spec.op, moved, y))
    return total


def _apply(op: K, x: Node, y: Node) -> Node:
    if op is K.ADD:
        return x
    if op is K.SELECT:
        return B.op(K.SELECT, B.op(K.LESS, x, y), x, y)
    return B.op(op, x) if op in UNARY else B.op(op, x, y)


def arg_chain(spec: Chain) -> Node:
    """As `chain`, in a loop that compilers do not vectorise."""
    x, y = (B.input(name, spec.dtype, (1, spec.elements)) for name in "xy")
    total = y
    for i in range(spec.count):
        total = B.add(total, _apply(spec.op, B.add(x, B.constant(i * 1e-3, spec.dtype)), y))
    return B.arg_reduce(K.ARGMAX, total, 1, I32)


def odd_stream(elements: int) -> Node:
    """An element a thread, read and written."""
    return B.add(B.input("x", F32, (elements,)), B.constant(1, F32))


def matmul(rows: int, terms: int, columns: int) -> Node:
    """As tasks of a CPU multiply."""
    return B.dot(B.input("x", F32, (rows, terms)), B.input("y", F32, (terms, columns)))


def phases(rows: int, columns: int, count: int) -> Node:
    """Sums of rows, each of which waits for the one before."""
    x = B.input("x", F32, (rows, columns))
    total = B.sum(x, [1], True)
    for _ in range(count - 1):
        total = B.sum(B.sub(x, B.mul(total, B.constant(1e-6, F32))), [1], True)
    return total


def reduced_rows(rows: int, columns: int, kind: K = K.SUM) -> Node:
    return B.reduce(kind, B.input("x", F32, (rows, columns)), [1])
