"""The TensorFlow op of every tensor IR op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tf_stitch.frontend.tensorflow import export_attention, export_convolutions
from tf_stitch.frontend.tensorflow.dtypes import to_enum
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import static_shape

Export: TypeAlias = Callable[..., Any]
"""(node, *operand tensors) -> tensor."""


def tf_dtype(dtype: DType) -> Any:
    return tf.dtypes.as_dtype(to_enum(dtype))


def _unary(op: Any) -> Export:
    return lambda node, x: op(x=x)


def _binary(op: Any) -> Export:
    return lambda node, x, y: op(x=x, y=y)


def _by_dtype(of_float: Any, of_integer: Any, of_bool: Any = None) -> Export:
    """A binary op that TensorFlow names by the type of its operands."""

    def export(node: Node, x: Any, y: Any) -> Any:
        dtype = node.operands[0].type.dtype
        op = of_bool if dtype is DType.BOOL else of_integer if dtype.is_integer else of_float
        return op(x=x, y=y)

    return export


def _constant(node: Node) -> Any:
    assert isinstance(node.attrs, oa.ConstantAttrs)
    return tf.constant(node.attrs.value, tf_dtype(node.type.dtype))


def _extent(node: Node) -> Any:
    assert isinstance(node.attrs, oa.ExtentAttrs)
    value = np.prod(static_shape(node.attrs.shape), dtype=np.int64)
    return tf.constant(value.astype(node.type.dtype.numpy))


def _iota(node: Node) -> Any:
    attrs = node.attrs
    assert isinstance(attrs, oa.IotaAttrs)
    shape = node.type.dims
    if attrs.axis < 0:
        return tf.constant(np.arange(node.type.numel, dtype=node.type.dtype.numpy).reshape(shape))
    line = np.arange(shape[attrs.axis]).astype(node.type.dtype.numpy)
    column = line.reshape([-1 if a == attrs.axis else 1 for a in range(len(shape))])
    return tf.raw_ops.BroadcastTo(input=column, shape=np.asarray(shape, np.int64))


def _assign(node: Node, x: Any) -> Any:
    return tf.raw_ops.Identity(input=x)


def _cast(node: Node, x: Any) -> Any:
    return tf.raw_ops.Cast(x=x, DstT=tf_dtype(node.type.dtype))


def _bits(node: Node, x: Any) -> Any:
    return tf.raw_ops.Bitcast(input=x, type=tf_dtype(node.type.dtype))


def _select(node: Node, condition: Any, x: Any, y: Any) -> Any:
    return tf.raw_ops.SelectV2(condition=condition, t=x, e=y)


def _broadcast(node: Node, x: Any) -> Any:
    return tf.raw_ops.BroadcastTo(input=x, shape=np.asarray(node.type.dims, np.int64))


def _reshape(node: Node, x: Any) -> Any:
    return tf.raw_ops.Reshape(tensor=x, shape=np.asarray(node.type.dims, np.int64))


def _transpose(node: Node, x: Any) -> Any:
    assert isinstance(node.attrs, oa.TransposeAttrs)
    return tf.raw_ops.Transpose(x=x, perm=np.asarray(node.attrs.perm, np.int32))


def _slice(node: Node, x: Any) -> Any:
    """A negative stride that reaches element 0 ends before it, which only a mask can say."""
    attrs = node.attrs
    assert isinstance(attrs, oa.SliceAttrs)
    ends = [b + size * s for b, s, size in zip(attrs.begin, attrs.strides, node.type.dims, strict=True)]
    mask = sum(1 << i for i, end in enumerate(ends) if end < 0)
    return tf.raw_ops.StridedSlice(
        input=x, begin=np.asarray(attrs.begin, np.int64), end=np.asarray(ends, np.int64),
        strides=np.asarray(attrs.strides, np.int64), end_mask=mask)


_MOST_PADDED = 6
"""Axes of a tensor that TensorFlow's kernel for CPUs pads at once."""


def _pad(node: Node, x: Any, value: Any) -> Any:
    assert isinstance(node.attrs, oa.PadAttrs)
    paddings = np.asarray(list(zip(node.attrs.low, node.attrs.high, strict=True)), np.int64).reshape(-1, 2)
    if len(paddings) <= _MOST_PADDED:
        return tf.raw_ops.PadV2(input=x, paddings=paddings, constant_values=value)
    dims = node.operands[0].type.dims
    for axis in np.flatnonzero(paddings.any(1)):
        alone = np.asarray((math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1:])), np.int64)
        x = tf.raw_ops.PadV2(input=tf.raw_ops.Reshape(tensor=x, shape=alone),
                             paddings=np.asarray([(0, 0), paddings[axis], (0, 0)]), constant_values=value)
        dims = (*dims[:axis], node.type.dims[axis], *dims[axis + 1:])
    return tf.raw_ops.Reshape(tensor=x, shape=np.asarray(dims, np.int64))


def _windows(node: Node, x: Any) -> Any:
    a = node.attrs
    assert isinstance(a, oa.WindowsAttrs)
    axes = zip(a.counts, a.extents, a.strides, a.dilations, strict=True)
    height, width = (np.arange(count)[:, None] * stride + np.arange(extent) * dilation
                     for count, extent, stride, dilation in axes)
    rows = tf.raw_ops.GatherV2(params=x, indices=height, axis=1)
    both = tf.raw_ops.GatherV2(params=rows, indices=width, axis=3)
    return tf.raw_ops.Transpose(x=both, perm=np.asarray((0, 1, 3, 2, 4, 5), np.int32))


def _concat(node: Node, *xs: Any) -> Any:
    assert isinstance(node.attrs, oa.AxisAttrs)
    if len(xs) == 1:
        return tf.raw_ops.Identity(input=xs[0])
    return tf.raw_ops.ConcatV2(values=list(xs), axis=node.attrs.axis)


def _gather(node: Node, params: Any, indices: Any) -> Any:
    return tf.raw_ops.GatherV2(params=params, indices=indices, axis=0)


def _scatter(node: Node, before: Any, rows: Any, updates: Any) -> Any:
    """What goes nowhere goes to a row of its own behind the others, which is cut off again: kernels for CPUs refuse
    negative rows."""
    attrs = node.attrs
    assert isinstance(attrs, oa.ScatterAttrs)
    count, *rest = node.type.dims
    tensor = tf.broadcast_to(before, node.type.dims)
    if attrs.combine is oa.Combine.PROD:
        segments = np.asarray(count, np.int32)
        return _raw.Mul(x=tensor, y=_raw.UnsortedSegmentProd(data=updates, segment_ids=rows, num_segments=segments))
    op = {oa.Combine.SUM: _raw.TensorScatterAdd, oa.Combine.MAX: _raw.TensorScatterMax,
          oa.Combine.MIN: _raw.TensorScatterMin, oa.Combine.SET: _raw.TensorScatterUpdate}[attrs.combine]
    longer = tf.concat([tensor, tf.zeros([1, *rest], tensor.dtype)], 0)
    behind = _raw.SelectV2(condition=rows < 0, t=tf.cast(count, rows.dtype), e=tf.cast(count + 1, rows.dtype))
    rows = _raw.SelectV2(condition=tf.logical_or(rows < 0, rows >= count), t=behind, e=rows)
    return op(tensor=longer, indices=rows[:, None], updates=updates)[:count]


def _random_bits(node: Node, position: Any, key: Any, low: Any, high: Any) -> Any:
    """Those of one key and counter; from the first word on, since TensorFlow gives them in a row."""
    key, counter = (tf.raw_ops.Bitcast(input=tf.reshape(x, [-1]), type=tf.uint64) for x in (key, tf.stack([low, high])))
    count = tf.reshape(tf.reduce_max(position) + 1, [1])
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(shape=count, key=key, counter=counter, alg=1, dtype=tf.uint32)
    return tf.raw_ops.Bitcast(input=tf.gather(words, position), type=tf.int32)


def _reduction(op: Any) -> Export:
    def export(node: Node, x: Any) -> Any:
        assert isinstance(node.attrs, oa.ReduceAttrs)
        return op(input=x, axis=np.asarray(node.attrs.axes, np.int32))

    return export


def _arg_reduction(op: Any) -> Export:
    def export(node: Node, x: Any) -> Any:
        assert isinstance(node.attrs, oa.ArgReduceAttrs)
        return op(input=x, dimension=node.attrs.axis, output_type=tf_dtype(node.type.dtype))

    return export


def _scan(op: Any) -> Export:
    def export(node: Node, x: Any) -> Any:
        assert isinstance(node.attrs, oa.ScanAttrs)
        return op(x=x, axis=node.type.rank - 1, exclusive=node.attrs.exclusive, reverse=node.attrs.reverse)

    return export


def _dot(node: Node, x: Any, y: Any) -> Any:
    assert isinstance(node.attrs, oa.DotAttrs)
    return tf.raw_ops.BatchMatMulV2(x=x, y=y, adj_x=node.attrs.transpose_a, adj_y=node.attrs.transpose_b)


def _float8_dot(node: Node, x: Any, y: Any, x_scale: Any, y_scale: Any) -> Any:
    assert isinstance(node.attrs, oa.Float8DotAttrs)
    matmul = tf.raw_ops.MatMul(a=tf.cast(x, tf.float32), b=tf.cast(y, tf.float32), transpose_b=True)
    return tf.cast(matmul * (x_scale * y_scale), node.attrs.dtype.value)


_raw = tf.raw_ops
EXPORTS: dict[K, Export] = {
    K.CONSTANT: _constant,
    K.EXTENT: _extent,
    K.IOTA: _iota,
    K.ASSIGN: _assign,
    K.NEG: _unary(_raw.Neg),
    K.ABS: _unary(_raw.Abs),
    K.SIGN: _unary(_raw.Sign),
    K.EXP: _unary(_raw.Exp),
    K.EXPM1: _unary(_raw.Expm1),
    K.LOG: _unary(_raw.Log),
    K.LOG1P: _unary(_raw.Log1p),
    K.SQRT: _unary(_raw.Sqrt),
    K.RSQRT: _unary(_raw.Rsqrt),
    K.RECIPROCAL: _unary(_raw.Reciprocal),
    K.TANH: _unary(_raw.Tanh),
    K.SIGMOID: _unary(_raw.Sigmoid),
    K.ERF: _unary(_raw.Erf),
    K.ERFC: _unary(_raw.Erfc),
    K.SIN: _unary(_raw.Sin),
    K.COS: _unary(_raw.Cos),
    K.TAN: _unary(_raw.Tan),
    K.ASIN: _unary(_raw.Asin),
    K.ACOS: _unary(_raw.Acos),
    K.ATAN: _unary(_raw.Atan),
    K.SINH: _unary(_raw.Sinh),
    K.COSH: _unary(_raw.Cosh),
    K.ASINH: _unary(_raw.Asinh),
    K.ACOSH: _unary(_raw.Acosh),
    K.ATANH: _unary(_raw.Atanh),
    K.LGAMMA: _unary(_raw.Lgamma),
    K.FLOOR: _unary(_raw.Floor),
    K.CEIL: _unary(_raw.Ceil),
    K.RINT: _unary(_raw.Round),
    K.LOGICAL_NOT: _unary(_raw.LogicalNot),
    K.INVERT: _unary(_raw.Invert),
    K.IS_NAN: _unary(_raw.IsNan),
    K.IS_INF: _unary(_raw.IsInf),
    K.IS_FINITE: _unary(_raw.IsFinite),
    K.CAST: _cast,
    K.BITS: _bits,
    K.ADD: _binary(_raw.AddV2),
    K.SUB: _binary(_raw.Sub),
    K.MUL: _binary(_raw.Mul),
    K.DIV: _by_dtype(_raw.RealDiv, _raw.TruncateDiv),
    K.FLOOR_DIV: _binary(_raw.FloorDiv),
    K.FLOOR_MOD: _binary(_raw.FloorMod),
    K.TRUNC_MOD: _binary(_raw.Mod),
    K.POW: _binary(_raw.Pow),
    K.MAXIMUM: _binary(_raw.Maximum),
    K.MINIMUM: _binary(_raw.Minimum),
    K.ATAN2: lambda node, y, x: _raw.Atan2(y=y, x=x),
    K.LESS: _binary(_raw.Less),
    K.LESS_EQUAL: _binary(_raw.LessEqual),
    K.GREATER: _binary(_raw.Greater),
    K.GREATER_EQUAL: _binary(_raw.GreaterEqual),
    K.EQUAL: _binary(_raw.Equal),
    K.NOT_EQUAL: _binary(_raw.NotEqual),
    K.AND: _by_dtype(None, _raw.BitwiseAnd, _raw.LogicalAnd),
    K.OR: _by_dtype(None, _raw.BitwiseOr, _raw.LogicalOr),
    K.XOR: _by_dtype(None, _raw.BitwiseXor, _raw.NotEqual),
    K.SELECT: _select,
    K.RANDOM_BITS: _random_bits,
    K.BROADCAST: _broadcast,
    K.RESHAPE: _reshape,
    K.TRANSPOSE: _transpose,
    K.SLICE: _slice,
    K.PAD: _pad,
    K.WINDOWS: _windows,
    K.CONCAT: _concat,
    K.GATHER: _gather,
    K.SCATTER: _scatter,
    K.SUM: _reduction(_raw.Sum),
    K.PROD: _reduction(_raw.Prod),
    K.MAX: _reduction(_raw.Max),
    K.MIN: _reduction(_raw.Min),
    K.ANY: _reduction(_raw.Any),
    K.ALL: _reduction(_raw.All),
    K.ARGMAX: _arg_reduction(_raw.ArgMax),
    K.ARGMIN: _arg_reduction(_raw.ArgMin),
    K.CUMSUM: _scan(_raw.Cumsum),
    K.CUMPROD: _scan(_raw.Cumprod),
    K.DOT: _dot,
    K.FLOAT8_DOT: _float8_dot,
    K.ATTENTION: export_attention.attention,
    K.ATTENTION_LOG_SUM: export_attention.log_sum,
    K.ATTENTION_QUERY_GRAD: export_attention.query_grad,
    K.ATTENTION_KEY_GRAD: export_attention.key_grad,
    K.ATTENTION_VALUE_GRAD: export_attention.value_grad,
    K.CONVOLUTION: export_convolutions.convolution,
    K.CONVOLUTION_INPUT_GRAD: export_convolutions.input_grad,
    K.CONVOLUTION_FILTER_GRAD: export_convolutions.filter_grad,
}
