"""Graphs that training and inference are made of, by name."""

from __future__ import annotations

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind

B = Builder()


def const(value: float, like: Node) -> Node:
    return B.scalar_like(value, like)


def softmax(x: Node, axis: int = -1) -> Node:
    e = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [axis], True)))
    return B.div(e, B.sum(e, [axis], True))


def log_softmax(x: Node) -> Node:
    shifted = B.sub(x, B.reduce(OpKind.MAX, x, [-1], True))
    return B.sub(shifted, B.op(OpKind.LOG, B.sum(B.exp(shifted), [-1], True)))


def layernorm(x: Node, gamma: Node, beta: Node) -> Node:
    centred = B.sub(x, B.mean(x, [-1], True))
    variance = B.mean(B.square(centred), [-1], True)
    normal = B.mul(centred, B.op(OpKind.RSQRT, B.add(variance, const(1e-3, x))))
    return B.add(B.mul(normal, gamma), beta)


def layernorm_backward(x: Node, dy: Node, gamma: Node, mean: Node, rstd: Node) -> list[Node]:
    """dx, dgamma, dbeta."""
    normal = B.mul(B.sub(x, mean), rstd)
    scaled = B.mul(dy, gamma)
    along = B.mul(normal, B.mean(B.mul(scaled, normal), [-1], True))
    dx = B.mul(rstd, B.sub(B.sub(scaled, B.mean(scaled, [-1], True)), along))
    return [dx, B.sum(B.mul(dy, normal), [0]), B.sum(dy, [0])]


def batchnorm_training(x: Node, gamma: Node, beta: Node, running_mean: Node, running_var: Node
                       ) -> tuple[list[Node], Node, Node]:
    """[y, batch mean, batch variance], new running mean and variance; all axes but the last are the batch."""
    axes = list(range(x.type.rank - 1))
    mean = B.mean(x, axes)
    centred = B.sub(x, mean)
    variance = B.mean(B.square(centred), axes)
    y = B.add(B.mul(B.mul(centred, B.op(OpKind.RSQRT, B.add(variance, const(1e-3, x)))), gamma), beta)

    def moved(old: Node, new: Node) -> Node:
        return B.add(B.mul(old, const(0.9, x)), B.mul(new, const(0.1, x)))

    return [y, mean, variance], moved(running_mean, mean), moved(running_var, variance)


def gelu_erf(x: Node) -> Node:
    return B.mul(B.mul(x, const(0.5, x)), B.add(const(1, x), B.op(OpKind.ERF, B.mul(x, const(0.70710678, x)))))


def gelu_tanh(x: Node) -> Node:
    cubic = B.add(x, B.mul(const(0.044715, x), B.mul(x, B.square(x))))
    return B.mul(B.mul(x, const(0.5, x)), B.add(const(1, x), B.op(OpKind.TANH, B.mul(cubic, const(0.7978845608, x)))))


def one_hot(labels: Node, classes: int, dtype: DType) -> Node:
    n = labels.type.dims[0]
    wide = B.broadcast(B.reshape(labels, (n, 1)), (n, classes))
    return B.cast(B.op(OpKind.EQUAL, B.iota((n, classes), 1, labels.type.dtype), wide), dtype)


def cross_entropy(logits: Node, labels: Node) -> list[Node]:
    """Mean loss, and its gradient with respect to the logits."""
    n, classes = logits.type.dims
    hot = one_hot(labels, classes, logits.type.dtype)
    loss = B.mean(B.neg(B.sum(B.mul(hot, log_softmax(logits)), [1])), [0])
    gradient = B.div(B.sub(softmax(logits), hot), const(n, logits))
    return [loss, gradient]


def adam(shapes: list[tuple[int, ...]], dtype: DType = DType.F32) -> tuple[list[Node], dict[str, Node]]:
    """Adam's update of variables w0, m0, v0, ... in place; outputs: old weights' norm, new moments' sum."""
    step = B.add(B.variable("step", DType.I64, ()), B.constant(1, DType.I64))
    one = B.constant(1, dtype)
    power = B.op(OpKind.POW, B.constant(0.9, dtype), B.cast(step, dtype))
    rate = B.div(B.constant(0.01, dtype), B.sub(one, power))
    assigns: dict[str, Node] = {"step": step}
    outputs: list[Node] = []
    for i, shape in enumerate(shapes):
        w, m, v = (B.variable(f"{n}{i}", dtype, shape) for n in "wmv")
        g = B.input(f"g{i}:0", dtype, shape)
        new_m = B.add(m, B.mul(B.sub(g, m), const(0.1, g)))
        new_v = B.add(v, B.mul(B.sub(B.square(g), v), const(0.001, g)))
        root = B.add(B.op(OpKind.SQRT, B.op(OpKind.ABS, new_v)), const(1e-3, g))
        assigns |= {f"m{i}": new_m, f"v{i}": new_v, f"w{i}": B.sub(w, B.div(B.mul(new_m, rate), root))}
        if i == 0:
            outputs += [B.sum(B.square(w), range(len(shape))), B.sum(new_m, range(len(shape)))]
    return outputs, assigns


def momentum(shapes: list[tuple[int, ...]]) -> dict[str, Node]:
    """Momentum's update of several variables."""
    assigns: dict[str, Node] = {}
    for i, shape in enumerate(shapes):
        w, a = B.variable(f"w{i}", DType.F32, shape), B.variable(f"a{i}", DType.F32, shape)
        g = B.input(f"g{i}:0", DType.F32, shape)
        new_a = B.add(B.mul(a, const(0.9, g)), g)
        assigns |= {f"a{i}": new_a, f"w{i}": B.sub(w, B.mul(new_a, const(0.01, g)))}
    return assigns
