"""Matmuls: library calls of a region (TF_STITCH_SCOPE=region)."""

from __future__ import annotations

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.activations import fused_activation
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.types import Dim, Shape

_DTYPES = (DType.F16, DType.BF16, DType.F32, DType.F64)


def _operands(ctx: NodeContext) -> tuple[Node, Node]:
    x, y = ctx.value(0), ctx.value(1)
    if x.type.dtype is not y.type.dtype or x.type.dtype not in _DTYPES:
        raise UnsupportedError(f"a matmul of {x.type} and {y.type}")
    return x, y


def _plain_matmul(ctx: NodeContext) -> Node:
    x, y = _operands(ctx)
    return ctx.b.dot(x, y, ctx.attrs.flag("transpose_a"), ctx.attrs.flag("transpose_b"))


@legalize("MatMul", library=True)
def matmul(ctx: NodeContext) -> Node:
    """[m, k] times [k, n]."""
    return _plain_matmul(ctx)


@legalize("_FusedMatMul", library=True)
def fused_matmul(ctx: NodeContext) -> Node:
    """What Grappler's remapper makes of a matmul and what follows it: bias, then an activation or an addend."""
    first, *rest = ctx.attrs.strings("fused_ops") or ("nothing",)
    if first != "BiasAdd" or len(rest) > 1:
        raise UnsupportedError(f"_FusedMatMul with {', '.join((first, *rest))}")
    out = ctx.b.add(_plain_matmul(ctx), ctx.value(2))
    if rest == ["Add"]:
        return ctx.b.add(out, ctx.value(3))
    return fused_activation(ctx, out, rest[0]) if rest else out


@legalize("_MklFusedBatchMatMulV2", library=True)
def fused_batch_matmul(ctx: NodeContext) -> Node:
    """What the remapper makes of the scores of attention: a matmul of batches, times a number, plus a mask."""
    fused = ctx.attrs.strings("fused_ops")
    if fused not in (("Mul",), ("Mul", "Add")):
        raise UnsupportedError(f"{ctx.op} with {', '.join(fused) or 'nothing'}")
    out = ctx.b.mul(_batched_matmul(ctx), ctx.value(2))
    return ctx.b.add(out, ctx.value(3)) if "Add" in fused else out


@legalize("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", library=True)
def batch_matmul(ctx: NodeContext) -> Node:
    """[..., m, k] times [..., k, n]."""
    return _batched_matmul(ctx)


def _batched_matmul(ctx: NodeContext) -> Node:
    """[..., m, k] times [..., k, n]; leading axes broadcast. A single right-hand matrix makes it one large matmul."""
    x, y = _operands(ctx)
    adj_x, adj_y = ctx.attrs.flag("adj_x"), ctx.attrs.flag("adj_y")
    if x.type.rank > 2 and y.type.rank == 2 and not adj_x:
        rows = ctx.fresh_symbol("rows") if not x.type.is_static else x.type.numel // max(x.type.dims[-1], 1)
        flat = ctx.b.dot(ctx.b.reshape(x, (rows, x.type.shape[-1])), y, False, adj_y)
        return ctx.b.reshape(flat, (*x.type.shape[:-1], flat.type.shape[-1]))
    batch = _batch(x.type.shape[:-2], y.type.shape[:-2])
    return ctx.b.dot(_with_batch(ctx, x, batch), _with_batch(ctx, y, batch), adj_x, adj_y)


def _batch(x: Shape, y: Shape) -> Shape:
    """Leading axes that both have, or that one has alone; UnsupportedError if sizes could differ."""
    rank = max(len(x), len(y))
    x, y = (1,) * (rank - len(x)) + tuple(x), (1,) * (rank - len(y)) + tuple(y)
    for a, b in zip(x, y, strict=True):
        if a != b and a != 1 and b != 1:
            raise UnsupportedError(f"leading axes {a} and {b} of a matmul may differ")
    return tuple(b if a == 1 else a for a, b in zip(x, y, strict=True))


def _with_batch(ctx: NodeContext, x: Node, batch: Shape) -> Node:
    return ctx.b.broadcast(x, (*batch, *x.type.shape[-2:]))


@legalize("Einsum", library=True)
def einsum(ctx: NodeContext) -> Node:
    """Two operands whose labels are batch, contracted or free: one matmul between transposes. What one operand alone
    has and the result has not is summed before."""
    equation = ctx.attrs.string("equation").replace(" ", "")
    if equation.count(",") != 1:
        raise UnsupportedError(f"Einsum {equation}")
    x, y = _operands(ctx)
    left, right, result = _labels(equation, x.type.shape, y.type.shape)
    if any(len(set(t)) != len(t) for t in (left, right, result)):
        raise UnsupportedError(f"Einsum {equation}")
    if len(left) != x.type.rank or len(right) != y.type.rank:
        raise UnsupportedError(f"Einsum {equation} of {x.type} and {y.type}")
    x, left = _summed_alone(ctx, x, left, right + result)
    y, right = _summed_alone(ctx, y, right, left + result)
    batch = [c for c in left if c in right and c in result]
    summed = [c for c in left if c in right and c not in result]
    rows, cols = [c for c in left if c not in right], [c for c in right if c not in left]
    if not set(result) <= {*left, *right}:
        raise UnsupportedError(f"Einsum {equation}")
    size: dict[str, Dim] = {**dict(zip(right, y.type.shape, strict=True)), **dict(zip(left, x.type.shape, strict=True))}
    a, transpose_a = _matrices(ctx, x, left, (batch, rows, summed), size, "a")
    b, transpose_b = _matrices(ctx, y, right, (batch, summed, cols), size, "b")
    out = ctx.b.dot(a, b, transpose_a, transpose_b)
    order = [*batch, *rows, *cols]
    whole = ctx.b.reshape(out, tuple(size[c] for c in order))
    return ctx.b.transpose(whole, [order.index(c) for c in result])


def _summed_alone(ctx: NodeContext, x: Node, labels: str, elsewhere: str) -> tuple[Node, str]:
    """An operand without the axes whose labels are nowhere else."""
    axes = [axis for axis, label in enumerate(labels) if label not in elsewhere]
    return (ctx.b.sum(x, axes) if axes else x), "".join(c for c in labels if c in elsewhere)


def _labels(equation: str, x: Shape, y: Shape) -> tuple[str, str, str]:
    """Labels of both operands' and the result's axes; those that "..." stands for are digits. UnsupportedError if one
    operand's would be broadcast to the other's."""
    sources, _, result = equation.partition("->")
    left, right = sources.split(",")
    hidden = [_hidden(labels, shape) for labels, shape in ((left, x), (right, y))]
    if all(hidden) and hidden[0] != hidden[1]:
        have, want = (f"[{', '.join(map(str, axes))}]" for axes in hidden)
        raise UnsupportedError(f"Einsum {equation} with {have} and {want} for its ellipses")
    digits = "".join(map(str, range(max(map(len, hidden)))))
    left, right = (t.replace("...", digits if axes else "") for t, axes in zip((left, right), hidden, strict=True))
    return left, right, result.replace("...", digits)


def _hidden(labels: str, shape: Shape) -> Shape:
    """Axes of an operand that an ellipsis stands for."""
    named, ellipsis, after = labels.partition("...")
    return shape[len(named):len(shape) - len(after)] if ellipsis else ()


def _matrices(ctx: NodeContext, x: Node, labels: str, groups: tuple[list[str], list[str], list[str]],
              size: dict[str, Dim], tag: str) -> tuple[Node, bool]:
    """x as matrices [*batch, rows, cols] of `groups`; or as [*batch, cols, rows] and True, if less has to move."""
    batch, rows, cols = groups

    def movement(order: list[str]) -> int:
        return 0 if "".join(order) == labels else 1 if order[-1:] == [labels[-1]] else 2

    swapped = movement([*batch, *cols, *rows]) < movement([*batch, *rows, *cols])
    parts = [cols, rows] if swapped else [rows, cols]
    x = ctx.b.transpose(x, [labels.index(c) for part in (batch, *parts) for c in part])
    last = [ctx.product([size[c] for c in part], f"{tag}{i}") for i, part in enumerate(parts)]
    return ctx.b.reshape(x, (*(size[c] for c in batch), *last)), swapped
