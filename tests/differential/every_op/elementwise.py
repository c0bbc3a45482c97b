"""Cases of ops that compute element by element: every element type, every edge value or pair of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tensorflow.python.framework import op_def_registry

from tests.differential.every_op.case import Case, Fixed, kernel_types, ramp
from tests.differential.every_op.values import grid, integers, pairs
from tf_stitch.ir.dtypes import DType

EXACT_UNARY = ("Abs", "Neg", "Sign", "Floor", "Ceil", "Rint", "Round", "Square", "Invert", "IsNan", "IsInf", "IsFinite",
               "LogicalNot", "OnesLike", "ZerosLike", "Identity", "StopGradient", "PreventGradient", "Snapshot", "Sqrt",
               "Reciprocal", "Inv", "Relu", "Relu6", "Softsign", "LeakyRelu")
ROUNDED_UNARY = ("Exp", "Expm1", "Log", "Log1p", "Rsqrt", "Tanh", "Sigmoid", "Erf", "Erfc", "Sin", "Cos", "Tan", "Asin",
                 "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Lgamma", "Elu", "Selu", "Softplus",
                 "_MklSwish")
UNARY = (*EXACT_UNARY, *ROUNDED_UNARY)
EXACT_BINARY = ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "Less", "LessEqual", "Greater", "GreaterEqual",
                "Equal", "NotEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "RealDiv", "TruncateDiv",
                "FloorDiv", "FloorMod", "Mod", "TruncateMod", "DivNoNan", "MulNoNan", "Xdivy", "SquaredDifference",
                "ReluGrad", "Relu6Grad", "LeakyReluGrad")
ROUNDED_BINARY = ("Atan2", "Pow", "Xlogy", "Xlog1py", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad",
                  "RsqrtGrad", "ReciprocalGrad", "InvGrad", "TanhGrad", "SigmoidGrad")
BINARY = (*EXACT_BINARY, *ROUNDED_BINARY)
DIVISIONS = ("Div", "TruncateDiv", "FloorDiv", "FloorMod", "Mod", "TruncateMod")
ULP = 8
"""Of functions that are no single operation of the processor's: TensorFlow's own are up to 6 off."""
_ULP = dict.fromkeys((*ROUNDED_UNARY, *ROUNDED_BINARY), float(ULP)) | {
    "Reciprocal": 1.0, "Inv": 1.0,  # TensorFlow refines the processor's estimate: 1 / 1 is 0.99999994
    "Pow": 32.0}  # TensorFlow's pow(0.3, 100) of float64 is 13 off


def _types(op: str) -> tuple[DType, ...]:
    return (DType.BOOL,) if op.startswith("Logical") else kernel_types(op, "T")


def _arguments(op: str) -> list[str]:
    return [arg.name for arg in op_def_registry.get(op).input_arg]


def unary() -> Iterator[Case]:
    for op in UNARY:
        argument, = _arguments(op)
        for dtype in _types(op):
            if op == "_MklSwish" and dtype is not DType.F32:
                continue  # depends on the processor
            yield Case(op, {argument: grid(dtype)}, label=dtype.value, ulp=_ULP.get(op, 0))
    for names in (("Expm1", "Sqrt", "Neg"), ("Square", "Relu"), ("Abs", "Round", "Inv")):
        for dtype in kernel_types("_UnaryOpsComposition", "T"):
            yield Case("_UnaryOpsComposition", {"x": grid(dtype)}, {"op_names": list(names)},
                       f"{dtype.value} {' '.join(names)}", ulp=ULP)
    for dtype in kernel_types("IdentityN", "T") or (DType.F32, DType.U64, DType.BOOL):
        yield Case("IdentityN", {"input": [grid(dtype), grid(DType.I32)]}, label=dtype.value)


def casts() -> Iterator[Case]:
    for source in kernel_types("Cast", "SrcT"):
        for target in kernel_types("Cast", "DstT"):
            yield Case("Cast", {"x": grid(source)}, {"DstT": target.value}, f"{source.value} to {target.value}")
    for source in kernel_types("Bitcast", "T"):
        for target in kernel_types("Bitcast", "type"):
            if source.size == target.size:
                yield Case("Bitcast", {"input": grid(source)}, {"type": target.value},
                           f"{source.value} to {target.value}")


def binary() -> Iterator[Case]:
    for op in BINARY:
        first, second = _arguments(op)
        for dtype in _types(op):
            x, y = pairs(dtype)
            if op in DIVISIONS and not dtype.is_float:
                continue  # below: the divisor has to be known
            if op == "Pow" and not dtype.is_float:
                continue
            yield Case(op, {first: x, second: y}, label=dtype.value, ulp=_ULP.get(op, 0))
            if op in ("Add", "Sub", "Maximum", "Less", "Pow"):
                row, column = ramp((5, 1, 3), dtype), ramp((4, 1), dtype, 3)
                yield Case(op, {first: row, second: column}, label=f"{dtype.value} broadcast", ulp=ULP)
    for op in ("LogicalAnd", "LogicalOr"):
        x, y = np.meshgrid([True, False], [True, False])
        yield Case(op, {"x": x, "y": y})
    for op in DIVISIONS:
        for dtype in _types(op):
            if dtype.is_float:
                continue
            x, info = integers(dtype), np.iinfo(dtype.numpy)
            for divisor in {1, 3, max(-7, info.min), info.max, info.min} - {0}:
                y = Fixed(np.array(divisor, dtype.numpy))
                yield Case(op, {"x": x, "y": y}, label=f"{dtype.value} by {divisor}")
            by = x[(x != 0) & (~x != 0)]
            yield Case(op, {"x": np.resize(x, len(by)), "y": Fixed(by)}, label=f"{dtype.value} by many")
    for dtype in (DType.I32, DType.I64):
        for exponent in (0, 1, 2, 3, 7, 16):
            yield Case("Pow", {"x": integers(dtype), "y": Fixed(np.array(exponent, dtype.numpy))},
                       label=f"{dtype.value} to the {exponent}")


def several() -> Iterator[Case]:
    """Ops of three operands and more."""
    for op in ("Select", "SelectV2"):
        for dtype in _types(op):
            x = grid(dtype)
            condition = np.arange(len(x)) % 3 == 0
            yield Case(op, {"condition": condition, "t": x, "e": x[::-1].copy()}, label=dtype.value)
        yield Case(op, {"condition": np.array(True), "t": ramp((2, 3), DType.F32), "e": ramp((2, 3), DType.F32, 5)},
                   label="scalar")
    yield Case("Select", {"condition": np.array([True, False]), "t": ramp((2, 3), DType.F32),
                          "e": ramp((2, 3), DType.F32, 5)}, label="rows")
    yield Case("SelectV2", {"condition": np.array([[True], [False]]), "t": ramp((3,), DType.I64),
                            "e": ramp((2, 1), DType.I64, 5)}, label="broadcast")
    for dtype in _types("ClipByValue"):
        x, y = pairs(dtype)
        two, three = x.dtype.type(-2), x.dtype.type(3)
        for label, low, high in (("bounds", two, three), ("wrong way", three, two)):
            yield Case("ClipByValue", {"t": grid(dtype), "clip_value_min": np.asarray(low),
                                       "clip_value_max": np.asarray(high)}, label=f"{dtype.value} {label}")
        yield Case("ClipByValue", {"t": x, "clip_value_min": y, "clip_value_max": np.roll(y, 7)},
                   label=f"{dtype.value} elements")
    for dtype in _types("AddN"):
        x, y = pairs(dtype)
        for count in (1, 2, 3, 9):
            parts = [np.roll(x if i % 2 else y, i) for i in range(count)]
            yield Case("AddN", {"inputs": parts}, label=f"{dtype.value} of {count}", ulp=2, scale=1)
    yield Case("AccumulateNV2", {"inputs": [ramp((3,), DType.F32), ramp((3,), DType.F32, 2)]}, {"shape": [3]})
    for op in ("BiasAdd", "BiasAddV1"):
        for dtype in _types(op):
            yield Case(op, {"value": ramp((2, 3, 4), dtype), "bias": ramp((4,), dtype, 5)}, label=dtype.value)
    yield Case("BiasAdd", {"value": ramp((2, 3, 4, 2), DType.F32), "bias": ramp((3,), DType.F32, 5)},
               {"data_format": "NCHW"}, "NCHW")


def elementwise() -> Iterator[Case]:
    yield from unary()
    yield from casts()
    yield from binary()
    yield from several()

