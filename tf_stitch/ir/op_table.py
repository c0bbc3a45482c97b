"""Facts about every op kind, one row each: arity, attributes, category, type rule, NumPy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tf_stitch.ir import attention_reference as attention
from tf_stitch.ir import convolution_reference as conv
from tf_stitch.ir import numpy_reference as ref
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir import type_rules as rule
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.philox import random_bits


@dataclass(frozen=True)
class OpInfo:
    """What every stage may ask of an op kind.

    Attributes:
        arity: number of operands, -1 for any from one.
        reference: (attrs, *arrays) -> array; operands and result in the compute type.
        cost: rough cycles per element on one CPU lane; decides recompute against staging.
    """

    arity: int
    category: Category
    type_rule: rule.TypeRule
    reference: Callable[..., Any]
    attrs: type[oa.Attrs] = oa.Attrs
    cost: int = 1


def _elementwise(arity: int, type_rule: rule.TypeRule, function: Callable[..., Any], cost: int = 1) -> OpInfo:
    return OpInfo(arity, Category.ELEMENTWISE, type_rule, lambda attrs, *xs: function(*xs), oa.Attrs, cost)


def _source(attrs: type[oa.Attrs], type_rule: rule.TypeRule, function: Callable[..., Any]) -> OpInfo:
    return OpInfo(0, Category.SOURCE, type_rule, function, attrs, 0)


def _movement(arity: int, attrs: type[oa.Attrs], type_rule: rule.TypeRule, function: Callable[..., Any],
              cost: int = 1) -> OpInfo:
    return OpInfo(arity, Category.MOVEMENT, type_rule, function, attrs, cost)


def _reduction(type_rule: rule.TypeRule, function: Callable[..., Any],
               attrs: type[oa.Attrs] = oa.ReduceAttrs) -> OpInfo:
    return OpInfo(1, Category.REDUCTION, type_rule, function, attrs, 1)


def _convolution(type_rule: rule.TypeRule, function: Callable[..., Any]) -> OpInfo:
    return OpInfo(2, Category.CONVOLUTION, type_rule, function, oa.ConvolutionAttrs)


def _attention(arity: int, type_rule: rule.TypeRule, function: Callable[..., Any]) -> OpInfo:
    return OpInfo(arity, Category.ATTENTION, type_rule, function, oa.AttentionAttrs)


_K = OpKind
OP_TABLE: dict[OpKind, OpInfo] = {
    _K.INPUT: _source(oa.InputAttrs, rule.from_attrs, ref.no_value),
    _K.VARIABLE: _source(oa.VariableAttrs, rule.from_attrs, ref.no_value),
    _K.CONSTANT: _source(oa.ConstantAttrs, rule.constant, lambda a: a.value),
    _K.EXTENT: _source(oa.ExtentAttrs, rule.extent, ref.extent),
    _K.IOTA: _source(oa.IotaAttrs, rule.iota, ref.iota),
    _K.ASSIGN: OpInfo(1, Category.EFFECT, rule.same, lambda a, x: x, oa.AssignAttrs, 0),
    _K.NEG: _elementwise(1, rule.number, np.negative),
    _K.ABS: _elementwise(1, rule.number, np.abs),
    _K.SIGN: _elementwise(1, rule.number, np.sign, 2),
    _K.EXP: _elementwise(1, rule.floating, np.exp, 10),
    _K.EXPM1: _elementwise(1, rule.floating, np.expm1, 14),
    _K.LOG: _elementwise(1, rule.floating, np.log, 12),
    _K.LOG1P: _elementwise(1, rule.floating, np.log1p, 14),
    _K.SQRT: _elementwise(1, rule.floating, np.sqrt, 6),
    _K.RSQRT: _elementwise(1, rule.floating, ref.rsqrt, 8),
    _K.RECIPROCAL: _elementwise(1, rule.floating, np.reciprocal, 5),
    _K.TANH: _elementwise(1, rule.floating, np.tanh, 14),
    _K.SIGMOID: _elementwise(1, rule.floating, ref.sigmoid, 14),
    _K.ERF: _elementwise(1, rule.floating, ref.erf, 16),
    _K.ERFC: _elementwise(1, rule.floating, ref.erfc, 20),
    _K.SIN: _elementwise(1, rule.floating, np.sin, 20),
    _K.COS: _elementwise(1, rule.floating, np.cos, 20),
    _K.TAN: _elementwise(1, rule.floating, np.tan, 25),
    _K.ASIN: _elementwise(1, rule.floating, np.arcsin, 25),
    _K.ACOS: _elementwise(1, rule.floating, np.arccos, 25),
    _K.ATAN: _elementwise(1, rule.floating, np.arctan, 25),
    _K.SINH: _elementwise(1, rule.floating, np.sinh, 25),
    _K.COSH: _elementwise(1, rule.floating, np.cosh, 25),
    _K.ASINH: _elementwise(1, rule.floating, np.arcsinh, 25),
    _K.ACOSH: _elementwise(1, rule.floating, np.arccosh, 25),
    _K.ATANH: _elementwise(1, rule.floating, np.arctanh, 25),
    _K.LGAMMA: _elementwise(1, rule.floating, ref.lgamma, 40),
    _K.FLOOR: _elementwise(1, rule.floating, np.floor),
    _K.CEIL: _elementwise(1, rule.floating, np.ceil),
    _K.RINT: _elementwise(1, rule.floating, np.rint),
    _K.LOGICAL_NOT: _elementwise(1, rule.boolean, np.logical_not),
    _K.INVERT: _elementwise(1, rule.integer, np.invert),
    _K.IS_NAN: _elementwise(1, rule.predicate, np.isnan),
    _K.IS_INF: _elementwise(1, rule.predicate, np.isinf),
    _K.IS_FINITE: _elementwise(1, rule.predicate, np.isfinite),
    _K.CAST: OpInfo(1, Category.ELEMENTWISE, rule.cast_to, ref.cast, oa.CastAttrs),
    _K.BITS: _elementwise(1, rule.bits, ref.bits),
    _K.ADD: _elementwise(2, rule.arithmetic, np.add),
    _K.SUB: _elementwise(2, rule.arithmetic, np.subtract),
    _K.MUL: _elementwise(2, rule.arithmetic, np.multiply),
    _K.DIV: _elementwise(2, rule.arithmetic, ref.divide, 5),
    _K.FLOOR_DIV: _elementwise(2, rule.arithmetic, ref.floor_divide, 8),
    _K.FLOOR_MOD: _elementwise(2, rule.arithmetic, ref.floor_mod, 8),
    _K.TRUNC_MOD: _elementwise(2, rule.arithmetic, np.fmod, 8),
    _K.POW: _elementwise(2, rule.floating_pair, np.power, 30),
    _K.MAXIMUM: _elementwise(2, rule.arithmetic, np.maximum),
    _K.MINIMUM: _elementwise(2, rule.arithmetic, np.minimum),
    _K.ATAN2: _elementwise(2, rule.floating_pair, np.arctan2, 30),
    _K.LESS: _elementwise(2, rule.comparison, np.less),
    _K.LESS_EQUAL: _elementwise(2, rule.comparison, np.less_equal),
    _K.GREATER: _elementwise(2, rule.comparison, np.greater),
    _K.GREATER_EQUAL: _elementwise(2, rule.comparison, np.greater_equal),
    _K.EQUAL: _elementwise(2, rule.comparison, np.equal),
    _K.NOT_EQUAL: _elementwise(2, rule.comparison, np.not_equal),
    _K.AND: _elementwise(2, rule.logical, np.bitwise_and),
    _K.OR: _elementwise(2, rule.logical, np.bitwise_or),
    _K.XOR: _elementwise(2, rule.logical, np.bitwise_xor),
    _K.SELECT: _elementwise(3, rule.select, np.where),
    _K.RANDOM_BITS: _elementwise(4, rule.random_bits, random_bits, 12),  # of 64-bit additions; four lanes share
    _K.BROADCAST: _movement(1, oa.ShapeAttrs, rule.broadcast, lambda a, x: np.broadcast_to(x, a.shape)),
    _K.RESHAPE: _movement(1, oa.ShapeAttrs, rule.reshape, lambda a, x: np.reshape(x, a.shape)),
    _K.TRANSPOSE: _movement(1, oa.TransposeAttrs, rule.transpose, lambda a, x: np.transpose(x, a.perm), 6),
    _K.SLICE: _movement(1, oa.SliceAttrs, rule.slice_, ref.slice_),
    _K.PAD: _movement(2, oa.PadAttrs, rule.pad, ref.pad),
    _K.WINDOWS: _movement(1, oa.WindowsAttrs, rule.seen, ref.windows),
    _K.CONCAT: _movement(-1, oa.AxisAttrs, rule.concat, lambda a, *xs: np.concatenate(xs, a.axis)),
    _K.GATHER: _movement(2, oa.Attrs, rule.gather, ref.gather, 6),
    _K.SUM: _reduction(rule.reduction, ref.total),
    _K.PROD: _reduction(rule.reduction, ref.reduce(np.multiply)),
    _K.MAX: _reduction(rule.reduction, ref.reduce(np.maximum)),
    _K.MIN: _reduction(rule.reduction, ref.reduce(np.minimum)),
    _K.ANY: _reduction(rule.logical_reduction, ref.reduce(np.logical_or)),
    _K.ALL: _reduction(rule.logical_reduction, ref.reduce(np.logical_and)),
    _K.ARGMAX: _reduction(rule.arg_reduction, ref.arg_reduce(np.greater), oa.ArgReduceAttrs),
    _K.ARGMIN: _reduction(rule.arg_reduction, ref.arg_reduce(np.less), oa.ArgReduceAttrs),
    _K.DOT: OpInfo(2, Category.CONTRACTION, rule.dot, ref.dot, oa.DotAttrs),
    _K.FLOAT8_DOT: OpInfo(4, Category.FLOAT8_CONTRACTION, rule.float8_dot, ref.float8_dot, oa.Float8DotAttrs),
    _K.CONVOLUTION: _convolution(rule.convolution, conv.convolution),
    _K.CONVOLUTION_INPUT_GRAD: _convolution(rule.convolution_input_grad, conv.input_grad),
    _K.CONVOLUTION_FILTER_GRAD: _convolution(rule.convolution_filter_grad, conv.filter_grad),
    _K.ATTENTION: _attention(3, rule.attention, attention.attended),
    _K.ATTENTION_LOG_SUM: _attention(2, rule.attention_log_sum, attention.log_sum),
    _K.ATTENTION_QUERY_GRAD: _attention(6, rule.attention_query_grad, attention.query_grad),
    _K.ATTENTION_KEY_GRAD: _attention(6, rule.attention_key_grad, attention.key_grad),
    _K.ATTENTION_VALUE_GRAD: _attention(6, rule.attention_key_grad, attention.value_grad),
    _K.CUMSUM: OpInfo(1, Category.SCAN, rule.scan, ref.cumsum, oa.ScanAttrs, 2),
    _K.CUMPROD: OpInfo(1, Category.SCAN, rule.scan, ref.cumprod, oa.ScanAttrs, 2),
    _K.SCATTER: OpInfo(3, Category.SCATTER, rule.scatter, ref.scatter, oa.ScatterAttrs, 2),
    _K.LOOP: OpInfo(-1, Category.LOOP, rule.from_attrs, ref.no_value, oa.LoopAttrs, 0),
}
