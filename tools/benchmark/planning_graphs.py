"""Region graphs of any size, to see how planning grows."""

from __future__ import annotations

import random
from collections.abc import Callable

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.op_attrs import AssignAttrs
from tf_stitch.ir.op_kinds import OpKind

F32 = DType.F32
B = Builder()


def transformer(nodes: int) -> TensorGraph:
    """Encoder layers with large matmuls, residuals, softmax, layer normalisation, GELU; every layer alike."""
    rows, width, hidden = 1024, 256, 1024
    x = B.input("x", F32, (rows, width))
    count, layer = 0, 0
    while count < nodes:
        count += 52
        q, k, v = (B.add(B.dot(x, _weight(f"{n}{layer}", width, width)), _vector(f"{n}b{layer}", width)) for n in "qkv")
        scores = B.mul(B.dot(q, k, False, True), B.constant(0.0625, F32))
        attended = B.dot(_softmax(scores), v)
        x = _normalised(B.add(x, attended), f"n{layer}", width)
        inner = B.add(B.dot(x, _weight(f"h{layer}", width, hidden)), _vector(f"hb{layer}", hidden))
        outer = B.add(B.dot(_gelu(inner), _weight(f"o{layer}", hidden, width)), _vector(f"ob{layer}", width))
        x = _normalised(B.add(x, outer), f"m{layer}", width)
        layer += 1
    return TensorGraph("transformer", [("o0", x)])


def updates(nodes: int) -> TensorGraph:
    """Adam's update of many variables of different shapes, which depend on nothing of each other."""
    rng = random.Random(nodes)
    outputs: list[tuple[str, Node]] = []
    for i in range(nodes // 12):
        shape = (rng.choice((64, 96, 128, 256)), rng.choice((64, 96, 128, 256, 512)))
        w, m, v = (B.variable(f"{n}{i}", F32, shape) for n in "wmv")
        g = B.input(f"g{i}", F32, shape)
        new_m = B.add(m, B.mul(B.sub(g, m), B.constant(0.1, F32)))
        new_v = B.add(v, B.mul(B.sub(B.square(g), v), B.constant(0.001, F32)))
        new_w = B.sub(w, B.div(B.mul(new_m, B.constant(0.01, F32)), B.add(B.op(OpKind.SQRT, new_v),
                                                                       B.constant(1e-3, F32))))
        outputs += [(name, make_node(OpKind.ASSIGN, (value,), AssignAttrs(name)))
                    for name, value in ((f"m{i}", new_m), (f"v{i}", new_v), (f"w{i}", new_w))]
    return TensorGraph("updates", outputs)


def mesh(nodes: int) -> TensorGraph:
    """One connected graph with no matmul in it: element-wise ops and reductions, wired at random to recent values."""
    rng = random.Random(nodes)
    shape = (256, 512)
    recent = [B.input(f"x{i}", F32, shape) for i in range(8)]
    count = 0
    while count < nodes:
        a, b = rng.choice(recent[-8:]), rng.choice(recent[-8:])
        kind = rng.random()
        if kind < 0.06:
            made = B.sub(a, B.reduce(OpKind.MAX, b, [-1], True))
            count += 2
        elif kind < 0.1:
            made = B.mul(a, B.sum(b, [0]))
            count += 1
        elif kind < 0.4:
            made = B.op(rng.choice((OpKind.EXP, OpKind.TANH, OpKind.NEG, OpKind.ABS)), a)
        else:
            made = B.op(rng.choice((OpKind.ADD, OpKind.MUL, OpKind.MAXIMUM)), a, b)
        recent.append(made)
        count += 1
    used = {o for n in recent for o in n.operands}
    ends = [n for n in recent if n not in used and n.kind is not OpKind.INPUT]
    return TensorGraph("mesh", [(f"o{i}", n) for i, n in enumerate(ends)])


def recurrence(nodes: int) -> TensorGraph:
    """Layers of a recurrence that is unrolled for 32 steps, RWKV-7's with small matmuls; what happens to the decay
    of a step is drawn, so that parts differ."""
    rng = random.Random(nodes)
    batch, steps, heads, size = 4, 32, 4, 16
    step_nodes = 19
    outputs: list[tuple[str, Node]] = []
    for layer in range(max(nodes // (steps * step_nodes), 1)):
        r, w, k, v, a, b = (B.input(f"{name}{layer}", F32, (batch, steps, heads, size)) for name in "rwkvab")
        state = B.input(f"s{layer}", F32, (batch, heads, size, size))
        for t in range(steps):
            rows, columns = (batch, heads, 1, size), (batch, heads, size, 1)
            decay = B.op(rng.choice((OpKind.EXP, OpKind.TANH, OpKind.NEG, OpKind.ABS)), _step(w, t, rows))
            erased = B.dot(B.dot(state, _step(a, t, columns)), _step(b, t, rows))
            written = B.dot(_step(v, t, columns), _step(k, t, rows))
            state = B.add(B.add(B.mul(state, B.broadcast(decay, state.type.shape)), erased), written)
            outputs.append((f"o{layer}_{t}", B.dot(state, _step(r, t, columns))))
    return TensorGraph("recurrence", outputs)


def _step(x: Node, t: int, shape: tuple[int, ...]) -> Node:
    batch, _, heads, size = x.type.dims
    return B.reshape(B.slice(x, (0, t, 0, 0), (1, 1, 1, 1), (batch, 1, heads, size)), shape)


GENERATORS: dict[str, Callable[[int], TensorGraph]] = {"transformer": transformer, "updates": updates, "mesh": mesh,
                                                       "recurrence": recurrence}


def _weight(name: str, rows: int, cols: int) -> Node:
    return B.input(name, F32, (rows, cols))


def _vector(name: str, size: int) -> Node:
    return B.input(name, F32, (size,))


def _softmax(x: Node) -> Node:
    e = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [-1], True)))
    return B.div(e, B.sum(e, [-1], True))


def _gelu(x: Node) -> Node:
    return B.mul(x, B.op(OpKind.SIGMOID, B.mul(x, B.constant(1.702, F32))))


def _normalised(x: Node, name: str, width: int) -> Node:
    size = B.constant(float(width), F32)
    centred = B.sub(x, B.div(B.sum(x, [-1], True), size))
    variance = B.div(B.sum(B.square(centred), [-1], True), size)
    normal = B.mul(centred, B.op(OpKind.RSQRT, B.add(variance, B.constant(1e-3, F32))))
    return B.add(B.mul(normal, _vector(f"{name}g", width)), _vector(f"{name}b", width))
