"""Builds tensor IR nodes with short calls; used by legalisation, passes and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tf_stitch.errors import UNKNOWN_LOC, SourceLoc
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, make_node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Shape, TensorType


@dataclass(frozen=True)
class Builder:
    """Every node it makes carries `loc`. Methods raise TypeRuleError on operands that do not fit."""

    loc: SourceLoc = UNKNOWN_LOC

    def op(self, kind: OpKind, *operands: Node) -> Node:
        """An op with no attributes (elementwise, gather)."""
        return make_node(kind, operands, None, self.loc)

    def input(self, key: str, dtype: DType, shape: Shape) -> Node:
        return make_node(OpKind.INPUT, (), oa.InputAttrs(key, TensorType(dtype, shape)), self.loc)

    def variable(self, handle: str, dtype: DType, shape: Shape) -> Node:
        return make_node(OpKind.VARIABLE, (), oa.VariableAttrs(handle, TensorType(dtype, shape)), self.loc)

    def assign(self, handle: str, value: Node) -> Node:
        return make_node(OpKind.ASSIGN, (value,), oa.AssignAttrs(handle), self.loc)

    def constant(self, value: ArrayLike, dtype: DType) -> Node:
        array = np.asarray(value).astype(dtype.numpy, order="C")
        return make_node(OpKind.CONSTANT, (), oa.ConstantAttrs(array), self.loc)

    def scalar_like(self, value: float, node: Node) -> Node:
        """A scalar constant of the element type of `node`."""
        return self.constant(value, node.type.dtype)

    def extent(self, shape: Shape, dtype: DType) -> Node:
        """A scalar: the product of `shape`."""
        return make_node(OpKind.EXTENT, (), oa.ExtentAttrs(shape, dtype), self.loc)

    def iota(self, shape: Shape, axis: int, dtype: DType) -> Node:
        return make_node(OpKind.IOTA, (), oa.IotaAttrs(shape, axis, dtype), self.loc)

    def positions(self, shape: Shape, dtype: DType) -> Node:
        """Element = its position among all, in C order."""
        return self.iota(shape, -1, dtype)

    def cast(self, x: Node, dtype: DType) -> Node:
        """x as dtype; x itself if it has it."""
        return x if x.type.dtype is dtype else make_node(OpKind.CAST, (x,), oa.CastAttrs(dtype), self.loc)

    def broadcast(self, x: Node, shape: Shape) -> Node:
        return x if x.type.shape == shape else make_node(OpKind.BROADCAST, (x,), oa.ShapeAttrs(shape), self.loc)

    def reshape(self, x: Node, shape: Shape) -> Node:
        return x if x.type.shape == shape else make_node(OpKind.RESHAPE, (x,), oa.ShapeAttrs(shape), self.loc)

    def transpose(self, x: Node, perm: Sequence[int]) -> Node:
        if list(perm) == list(range(x.type.rank)):
            return x
        return make_node(OpKind.TRANSPOSE, (x,), oa.TransposeAttrs(tuple(perm)), self.loc)

    def scatter(self, before: Node, rows: Node, updates: Node, shape: Shape, combine: oa.Combine,
                updates_first: bool = False, row_axes: int = 1, in_place: bool = False) -> Node:
        """`before`, broadcast to `shape`, with row i of `updates` combined with its row rows[i]."""
        attrs = oa.ScatterAttrs(shape, combine, updates_first, row_axes, in_place)
        return make_node(OpKind.SCATTER, (before, rows, updates), attrs, self.loc)

    def slice(self, x: Node, begin: Sequence[int], strides: Sequence[int], sizes: Shape) -> Node:
        return make_node(OpKind.SLICE, (x,), oa.SliceAttrs(tuple(begin), tuple(strides), sizes), self.loc)

    def pad(self, x: Node, value: Node, low: Sequence[int], high: Sequence[int]) -> Node:
        return make_node(OpKind.PAD, (x, value), oa.PadAttrs(tuple(low), tuple(high)), self.loc)

    def windows(self, x: Node, attrs: oa.WindowsAttrs) -> Node:
        return make_node(OpKind.WINDOWS, (x,), attrs, self.loc)

    def concat(self, xs: Sequence[Node], axis: int) -> Node:
        return xs[0] if len(xs) == 1 else make_node(OpKind.CONCAT, xs, oa.AxisAttrs(axis), self.loc)

    def reduce(self, kind: OpKind, x: Node, axes: Sequence[int], keepdims: bool = False) -> Node:
        """A reduction over `axes`; no axes give x itself."""
        axes = tuple(sorted(a % max(x.type.rank, 1) for a in axes))
        out = make_node(kind, (x,), oa.ReduceAttrs(axes), self.loc) if axes else x
        kept: Shape = tuple(1 if i in axes else d for i, d in enumerate(x.type.shape))
        return self.reshape(out, kept) if keepdims else out

    def arg_reduce(self, kind: OpKind, x: Node, axis: int, dtype: DType) -> Node:
        return make_node(kind, (x,), oa.ArgReduceAttrs(axis % x.type.rank, dtype), self.loc)

    def dot(self, x: Node, y: Node, transpose_a: bool = False, transpose_b: bool = False) -> Node:
        return make_node(OpKind.DOT, (x, y), oa.DotAttrs(transpose_a, transpose_b), self.loc)

    def float8_dot(self, x: Node, y: Node, x_scale: Node, y_scale: Node, dtype: DType) -> Node:
        """x [m, k] times y [n, k], each by its scale, of type `dtype`."""
        return make_node(OpKind.FLOAT8_DOT, (x, y, x_scale, y_scale), oa.Float8DotAttrs(dtype), self.loc)

    def convolution(self, kind: OpKind, x: Node, y: Node, attrs: oa.ConvolutionAttrs) -> Node:
        """A convolution of images, or one of its gradients."""
        return make_node(kind, (x, y), attrs, self.loc)

    def cumsum(self, x: Node, exclusive: bool, reverse: bool) -> Node:
        return make_node(OpKind.CUMSUM, (x,), oa.ScanAttrs(exclusive, reverse), self.loc)

    def cumprod(self, x: Node, exclusive: bool, reverse: bool) -> Node:
        return make_node(OpKind.CUMPROD, (x,), oa.ScanAttrs(exclusive, reverse), self.loc)

    # Arithmetic by name: legalisation reads like the formula it implements.
    def add(self, x: Node, y: Node) -> Node:
        return self.op(OpKind.ADD, x, y)

    def sub(self, x: Node, y: Node) -> Node:
        return self.op(OpKind.SUB, x, y)

    def mul(self, x: Node, y: Node) -> Node:
        return self.op(OpKind.MUL, x, y)

    def div(self, x: Node, y: Node) -> Node:
        return self.op(OpKind.DIV, x, y)

    def maximum(self, x: Node, y: Node) -> Node:
        return self.op(OpKind.MAXIMUM, x, y)

    def minimum(self, x: Node, y: Node) -> Node:
        return self.op(OpKind.MINIMUM, x, y)

    def exp(self, x: Node) -> Node:
        return self.op(OpKind.EXP, x)

    def neg(self, x: Node) -> Node:
        return self.op(OpKind.NEG, x)

    def square(self, x: Node) -> Node:
        return self.op(OpKind.MUL, x, x)

    def select(self, condition: Node, x: Node, y: Node) -> Node:
        return self.op(OpKind.SELECT, condition, x, y)

    def sum(self, x: Node, axes: Sequence[int], keepdims: bool = False) -> Node:
        return self.reduce(OpKind.SUM, x, axes, keepdims)

    def mean(self, x: Node, axes: Sequence[int], keepdims: bool = False) -> Node:
        """Sum over `axes` divided by their size."""
        total = self.sum(x, axes, keepdims)
        return self.div(total, self.extent(tuple(x.type.shape[a % x.type.rank] for a in axes), x.type.dtype))
