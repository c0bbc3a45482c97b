"""Dense optimizer steps, as the CPU functors of tensorflow/core/kernels/training_ops.cc compute them.

The shape of every slot is that of the gradient: the kernels refuse anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K


def _sqrt(b: Builder, x: Node) -> Node:
    return b.op(K.SQRT, x)


def _moving(b: Builder, average: Node, sample: Node, rate: Node) -> Node:
    """average + (sample - average) (1 - rate)."""
    return b.add(average, b.mul(b.sub(sample, average), b.sub(b.scalar_like(1, rate), rate)))


def _store(ctx: NodeContext, *values: Node) -> Sequence[Node]:
    """Writes the first inputs, which are handles, in order."""
    for index, value in enumerate(values):
        ctx.write(index, value)
    return ()


def _read(ctx: NodeContext, count: int, gradient: Node) -> list[Node]:
    """The gradient, as it has the variable's shape, and the first inputs, which are handles."""
    slots = [ctx.read(index, gradient.type.shape) for index in range(count)]
    return [ctx.fitted(gradient, slots[0].type.shape), *slots]


@legalize("ResourceApplyGradientDescent")
def gradient_descent(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, grad) = ctx.b, ctx.values(1)
    grad, var = _read(ctx, 1, grad)
    return _store(ctx, b.sub(var, b.mul(grad, lr)))


@legalize("ResourceApplyMomentum")
def momentum(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, grad, rate) = ctx.b, ctx.values(2)
    grad, var, accum = _read(ctx, 2, grad)
    accum = b.add(b.mul(accum, rate), grad)
    step = b.mul(accum, lr)
    if ctx.attrs.flag("use_nesterov"):
        step = b.add(b.mul(grad, lr), b.mul(b.mul(accum, rate), lr))
    return _store(ctx, b.sub(var, step), accum)


@legalize("ResourceApplyKerasMomentum")
def keras_momentum(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, grad, rate) = ctx.b, ctx.values(2)
    grad, var, accum = _read(ctx, 2, grad)
    accum = b.sub(b.mul(accum, rate), b.mul(grad, lr))
    step = accum
    if ctx.attrs.flag("use_nesterov"):
        step = b.sub(b.mul(accum, rate), b.mul(grad, lr))
    return _store(ctx, b.add(var, step), accum)


@legalize("ResourceApplyAdam")
def adam(ctx: NodeContext) -> Sequence[Node]:
    """Kingma and Ba 2015, the form just before section 2.1; Nesterov as Dozat 2016."""
    b, (beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad) = ctx.b, ctx.values(3)
    grad, var, m, v = _read(ctx, 3, grad)
    one = b.scalar_like(1, lr)
    alpha = b.div(b.mul(lr, _sqrt(b, b.sub(one, beta2_power))), b.sub(one, beta1_power))
    m = _moving(b, m, grad, beta1)
    v = _moving(b, v, b.square(grad), beta2)
    direction = m
    if ctx.attrs.flag("use_nesterov"):
        direction = b.add(b.mul(grad, b.sub(one, beta1)), b.mul(beta1, m))
    return _store(ctx, b.sub(var, b.div(b.mul(direction, alpha), b.add(_sqrt(b, v), epsilon))), m, v)


@legalize("ResourceApplyAdaMax")
def adamax(ctx: NodeContext) -> Sequence[Node]:
    b, (beta1_power, lr, beta1, beta2, epsilon, grad) = ctx.b, ctx.values(3)
    grad, var, m, v = _read(ctx, 3, grad)
    m = _moving(b, m, grad, beta1)
    v, size = b.mul(beta2, v), b.op(K.ABS, grad)
    v = b.select(b.op(K.LESS, v, size), size, v)  # a NaN in grad is none, as Eigen's cwiseMax has it
    rate = b.div(lr, b.sub(b.scalar_like(1, lr), beta1_power))
    return _store(ctx, b.sub(var, b.mul(rate, b.div(m, b.add(v, epsilon)))), m, v)


@legalize("ResourceApplyRMSProp")
def rmsprop(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, rho, rate, epsilon, grad) = ctx.b, ctx.values(3)
    grad, var, ms, mom = _read(ctx, 3, grad)
    ms = _moving(b, ms, b.square(grad), rho)
    mom = b.add(b.mul(mom, rate), b.div(b.mul(grad, lr), _sqrt(b, b.add(ms, epsilon))))
    return _store(ctx, b.sub(var, mom), ms, mom)


@legalize("ResourceApplyCenteredRMSProp")
def centered_rmsprop(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, rho, rate, epsilon, grad) = ctx.b, ctx.values(4)
    grad, var, mg, ms, mom = _read(ctx, 4, grad)
    ms = _moving(b, ms, b.square(grad), rho)
    mg = _moving(b, mg, grad, rho)
    spread = b.add(b.sub(ms, b.square(mg)), epsilon)
    mom = b.add(b.mul(mom, rate), b.div(b.mul(grad, lr), _sqrt(b, spread)))
    return _store(ctx, b.sub(var, mom), mg, ms, mom)


@legalize("ResourceApplyAdagrad")
def adagrad(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, grad) = ctx.b, ctx.values(2)
    grad, var, accum = _read(ctx, 2, grad)
    if ctx.attrs.flag("update_slots"):
        accum = b.add(accum, b.square(grad))
    return _store(ctx, b.sub(var, b.mul(b.mul(grad, lr), b.op(K.RSQRT, accum))), accum)


@legalize("ResourceApplyAdagradV2")
def adagrad_v2(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, epsilon, grad) = ctx.b, ctx.values(2)
    grad, var, accum = _read(ctx, 2, grad)
    if ctx.attrs.flag("update_slots"):
        accum = b.add(accum, b.square(grad))
    return _store(ctx, b.sub(var, b.div(b.mul(grad, lr), b.add(_sqrt(b, accum), epsilon))), accum)


@legalize("ResourceApplyAdadelta")
def adadelta(ctx: NodeContext) -> Sequence[Node]:
    b, (lr, rho, epsilon, grad) = ctx.b, ctx.values(3)
    grad, var, accum, accum_update = _read(ctx, 3, grad)
    rest = b.sub(b.scalar_like(1, rho), rho)
    accum = b.add(b.mul(accum, rho), b.mul(b.square(grad), rest))
    update = b.mul(b.mul(_sqrt(b, b.add(accum_update, epsilon)), b.op(K.RSQRT, b.add(accum, epsilon))), grad)
    accum_update = b.add(b.mul(accum_update, rho), b.mul(b.square(update), rest))
    return _store(ctx, b.sub(var, b.mul(update, lr)), accum, accum_update)
