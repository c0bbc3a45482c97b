"""Kinds of tensor IR ops."""

from __future__ import annotations

from enum import Enum


class OpKind(Enum):
    """A primitive with one result. Facts about each are in op_table."""

    # sources and sinks
    INPUT = "input"
    VARIABLE = "variable"
    CONSTANT = "constant"
    EXTENT = "extent"
    IOTA = "iota"
    ASSIGN = "assign"
    # unary
    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    EXP = "exp"
    EXPM1 = "expm1"
    LOG = "log"
    LOG1P = "log1p"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    RECIPROCAL = "reciprocal"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    ERFC = "erfc"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    LGAMMA = "lgamma"
    FLOOR = "floor"
    CEIL = "ceil"
    RINT = "rint"
    LOGICAL_NOT = "logical_not"
    INVERT = "invert"
    IS_NAN = "is_nan"
    IS_INF = "is_inf"
    IS_FINITE = "is_finite"
    CAST = "cast"
    BITS = "bits"
    # binary
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOOR_DIV = "floor_div"
    FLOOR_MOD = "floor_mod"
    TRUNC_MOD = "trunc_mod"
    POW = "pow"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    ATAN2 = "atan2"
    LESS = "less"
    LESS_EQUAL = "less_equal"
    GREATER = "greater"
    GREATER_EQUAL = "greater_equal"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    AND = "and"
    OR = "or"
    XOR = "xor"
    # of more operands
    SELECT = "select"
    RANDOM_BITS = "random_bits"
    # movement
    BROADCAST = "broadcast"
    RESHAPE = "reshape"
    TRANSPOSE = "transpose"
    SLICE = "slice"
    PAD = "pad"
    WINDOWS = "windows"
    CONCAT = "concat"
    GATHER = "gather"
    # reductions
    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ANY = "any"
    ALL = "all"
    ARGMAX = "argmax"
    ARGMIN = "argmin"
    CUMSUM = "cumsum"
    CUMPROD = "cumprod"
    # rows by index
    SCATTER = "scatter"
    # contractions
    DOT = "dot"
    FLOAT8_DOT = "float8_dot"
    # convolutions of images
    CONVOLUTION = "convolution"
    CONVOLUTION_INPUT_GRAD = "convolution_input_grad"
    CONVOLUTION_FILTER_GRAD = "convolution_filter_grad"
    # attentions whose scores nobody else needs, and their gradients
    ATTENTION = "fused_attention"
    ATTENTION_LOG_SUM = "attention_log_sum"
    ATTENTION_QUERY_GRAD = "attention_query_grad"
    ATTENTION_KEY_GRAD = "attention_key_grad"
    ATTENTION_VALUE_GRAD = "attention_value_grad"
    # unrolled when sizes are known
    LOOP = "loop"

    __hash__ = object.__hash__  # Enum's own is Python, and tables by kind are asked everywhere


class Category(Enum):
    """How an op reads its operands (the papers' classes of memory-intensive ops)."""

    SOURCE = "source"
    ELEMENTWISE = "elementwise"
    MOVEMENT = "movement"
    REDUCTION = "reduction"
    SCAN = "scan"
    SCATTER = "scatter"
    CONTRACTION = "contraction"
    FLOAT8_CONTRACTION = "float8_contraction"
    CONVOLUTION = "convolution"
    ATTENTION = "fused_attention"
    EFFECT = "effect"
    LOOP = "loop"

    __hash__ = object.__hash__


COLLECTED = (Category.REDUCTION, Category.SCAN, Category.SCATTER)
"""Whose elements are made of many others, so that no kernel computes them in passing."""

CALLED = (Category.CONTRACTION, Category.FLOAT8_CONTRACTION, Category.CONVOLUTION, Category.ATTENTION)
"""What library calls compute, from memory to memory."""
NO_MEMORY = (OpKind.CONSTANT, OpKind.EXTENT, OpKind.IOTA)
"""Values that kernels know without reading them, and that library calls cannot read."""
