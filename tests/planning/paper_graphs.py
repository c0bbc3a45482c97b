"""The example graphs of the papers, as far as their texts describe them."""

from __future__ import annotations

from tests.differential.runner import region
from tf_stitch.errors import SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind

F32 = DType.F32


def named(name: str) -> Builder:
    """A builder whose nodes carry the paper's name for an op."""
    return Builder(SourceLoc(name, ""))


MOTIVATING = ("dot_1", "multiply_1", "add_1", "tanh_1", "reduce_1", "subtract_1", "exp_1", "reduce_2", "dot_2",
              "divide", "log_1", "subtract", "multiply_2")
"""Two batched dots, nine element-wise ops, two reductions (FusionStitching section 3.1)."""


def motivating_example(batch: int = 16, rows: int = 64, terms: int = 8, cols: int = 512) -> TensorGraph:
    """FusionStitching section 3.1: dot_1 makes a large value of two small ones, dot_2 a small one of it; four outputs.
    Around it: a large matmul, and a loss summed over everything, a scalar reduction that wants a kernel of its own
    and stands in the middle of the topological order.

    The text leaves the wiring open; here it is a softmax-weighted sum, as in the model the example is from.
    """
    b = Builder()
    x = b.input("x", F32, (batch * rows, 512))
    queries = named("gemm").dot(x, b.input("w", F32, (512, terms * 32)))
    left = b.reshape(b.slice(queries, (0, 0), (1, 1), (batch * rows, terms)), (batch, rows, terms))
    right, values = b.input("keys", F32, (batch, terms, cols)), b.input("values", F32, (batch, cols, 1))
    mask, bias = b.input("mask", F32, (batch, rows, cols)), b.input("bias", F32, (cols,))
    gate = b.input("gate", F32, (batch, rows, 1))
    dot_1 = named("dot_1").dot(left, right)
    scaled = named("multiply_1").mul(dot_1, mask)
    shifted = named("tanh_1").op(OpKind.TANH, named("add_1").add(scaled, bias))
    largest = named("reduce_1").reduce(OpKind.MAX, shifted, [-1], True)
    weights = named("exp_1").exp(named("subtract_1").sub(shifted, largest))
    total = named("reduce_2").sum(weights, [-1], True)
    dot_2 = named("dot_2").dot(weights, values)
    divide = named("divide").div(dot_2, total)
    log_1 = named("log_1").op(OpKind.LOG, total)
    subtract = named("subtract").sub(log_1, largest)
    multiply_2 = named("multiply_2").mul(divide, gate)
    loss = named("loss").sum(subtract, [0, 1, 2])
    return region("motivating_example", [loss, divide, log_1, multiply_2, subtract])


def motivating_pattern(batch: int = 15616, rows: int = 94, terms: int = 2, cols: int = 94, width: int = 2
                       ) -> TensorGraph:
    """The same ops at sizes that give the section's bytes: 12 MB make the 552 MB of dot_1, and dot_2 a small result."""
    b = Builder()
    left, right = b.input("left", F32, (batch, rows, terms)), b.input("right", F32, (batch, terms, cols))
    values, gate = b.input("values", F32, (batch, cols, width)), b.input("gate", F32, (batch, rows, 1))
    dot_1 = b.dot(left, right)
    shifted = b.op(OpKind.TANH, b.add(b.mul(dot_1, b.constant(0.5, F32)), b.input("bias", F32, (cols,))))
    largest = b.reduce(OpKind.MAX, shifted, [-1], True)
    weights = b.exp(b.sub(shifted, largest))
    total = b.sum(weights, [-1], True)
    divide, log_1 = b.div(b.dot(weights, values), total), b.op(OpKind.LOG, total)
    return region("motivating_pattern", [divide, log_1, b.mul(divide, gate), b.sub(log_1, largest)])


def figure_7a(rows: int = 2048, cols: int = 128, length: int = 256) -> TensorGraph:
    """AStitch Fig. 7(a): parameter.1 and add.1 into reduce.1, whose rows broadcast.1 gives to divide.1; power.1 of it,
    broadcast.2 of that, reduce.2, and multiply.1 of its result. Sections 3.2.2 and 4.3 name the ops and their paths."""
    b = Builder()
    pr_1, pr_2 = b.input("parameter.1", F32, (rows, cols)), b.input("parameter.2", F32, (rows,))
    pr_3 = b.input("parameter.3", F32, (rows, length))
    add_1 = named("add.1").add(pr_1, b.constant(1.0, F32))
    reduce_1 = named("reduce.1").sum(add_1, [1])
    divide_1 = named("divide.1").div(reduce_1, pr_2)
    power_1 = named("power.1").op(OpKind.POW, divide_1, b.constant(1.5, F32))
    broadcast_2 = named("broadcast.2").broadcast(named("broadcast.2").reshape(power_1, (rows, 1)), (rows, length))
    reduce_2 = named("reduce.2").sum(named("add.2").add(broadcast_2, pr_3), [0])
    multiply_1: Node = named("multiply.1").mul(named("add.3").add(broadcast_2, reduce_2), pr_3)
    return region("figure_7a", [multiply_1])
