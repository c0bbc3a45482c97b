"""Cases of losses, batch normalisation, matmuls, optimizers, variables and random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.differential.every_op.case import Array, Case, Fixed, Variable, kernel_types, ramp
from tests.differential.every_op.reductions import rows
from tests.differential.every_op.values import grid
from tf_stitch.ir.dtypes import DType

GPU = "/device:GPU:0"


def _normal(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype.numpy)


def losses() -> Iterator[Case]:
    for op in ("Softmax", "LogSoftmax"):
        for dtype in kernel_types(op, "T"):
            yield Case(op, {"logits": rows(dtype)}, label=dtype.value, ulp=8, scale=1)
            yield Case(op, {"logits": _normal((2, 3, 5), dtype)}, label=f"{dtype.value} of rank 3", ulp=8, scale=1)
    for dtype in kernel_types("SoftmaxCrossEntropyWithLogits", "T"):
        features = rows(dtype)
        labels = np.abs(_normal(features.shape, dtype, 1))
        labels[:, ::2] = 0
        yield Case("SoftmaxCrossEntropyWithLogits", {"features": features, "labels": labels}, label=dtype.value, ulp=8,
                   scale=64)
        yield Case("SoftmaxCrossEntropyWithLogits",
                   {"features": _normal((1, 5), dtype), "labels": _normal((3, 5), dtype)},
                   label=f"{dtype.value} broadcast", ulp=8, scale=8, gradient=False)
        for index in kernel_types("SparseSoftmaxCrossEntropyWithLogits", "Tlabels"):
            yield Case("SparseSoftmaxCrossEntropyWithLogits",
                       {"features": features, "labels": (np.arange(len(features)) % 9).astype(index.numpy)},
                       label=f"{dtype.value} {index.value}", ulp=8, scale=16)


def batch_norms() -> Iterator[Case]:
    for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
        for dtype in kernel_types(op, "T"):
            for training in (True, False):
                for factor in (1.0, 0.3):
                    for label, x in (("", _normal((3, 2, 3, 4), dtype)), ("one", _normal((1, 1, 1, 4), dtype)),
                                     ("special", np.resize(grid(dtype), (8, 2, 1, 4)))):
                        stats = [np.abs(_normal((4,), DType.F32, i)) for i in range(4)]
                        if training and factor == 1:
                            stats[2:] = [np.zeros(0, np.float32)] * 2
                        given = dict(zip(("scale", "offset", "mean", "variance"), stats, strict=True))
                        yield Case(op, {"x": x, **given},
                                   {"epsilon": 1e-3, "exponential_avg_factor": factor, "is_training": training},
                                   f"{dtype.value} {'training' if training else 'inference'} {factor} {label}".strip(),
                                   ulp=64, scale=4, outputs=(0, 1, 2, 3, 4) if training else (0, 1, 2),
                                   gradient=False)
    for op in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"):
        for dtype in kernel_types(op, "T"):
            for training in (True, False):
                inputs: dict[str, Any] = {
                    "y_backprop": _normal((3, 2, 3, 4), dtype, 9), "x": _normal((3, 2, 3, 4), dtype),
                    "scale": _normal((4,), DType.F32), "reserve_space_1": _normal((4,), DType.F32, 2),
                    "reserve_space_2": np.abs(_normal((4,), DType.F32, 3))}
                if op.endswith("V3"):
                    inputs["reserve_space_3"] = np.zeros((0,), np.float32)
                yield Case(op, inputs, {"epsilon": 1e-3, "is_training": training},
                           f"{dtype.value} {'training' if training else 'inference'}", ulp=64, scale=4,
                           outputs=(0, 1, 2), gradient=False)


def matmuls() -> Iterator[Case]:
    close: dict[str, Any] = {"ulp": 8, "scale": 8}
    for dtype in kernel_types("MatMul", "T"):
        for a, b in ((False, False), (True, False), (False, True), (True, True)):
            x, y = ramp((5, 3) if a else (3, 5), dtype), ramp((4, 5) if b else (5, 4), dtype, 3)
            yield Case("MatMul", {"a": x, "b": y}, {"transpose_a": a, "transpose_b": b}, f"{dtype.value} {a} {b}",
                       **close)
    for op in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        for dtype in kernel_types(op, "Ta" if op.endswith("V3") else "T"):
            attrs = {"Tout": dtype.value} if op.endswith("V3") else {}
            for a in (False, True):
                x, y = ramp((2, 5, 3) if a else (2, 3, 5), dtype), ramp((2, 4, 5) if a else (2, 5, 4), dtype, 3)
                yield Case(op, {"x": x, "y": y}, {"adj_x": a, "adj_y": a, **attrs}, f"{dtype.value} {a}", **close)
            if op != "BatchMatMul":
                yield Case(op, {"x": ramp((2, 1, 3, 5), dtype), "y": ramp((3, 5, 2), dtype)}, attrs,
                           f"{dtype.value} broadcast", **close)
    for dtype in kernel_types("Einsum", "T"):
        for equation, left, right in (("ij,jk->ik", (3, 4), (4, 2)), ("bij,bkj->bki", (2, 3, 4), (2, 5, 4)),
                                      ("...i,ij->...j", (2, 3, 4), (4, 5)),
                                      ("bijc,zjd->bidz", (2, 3, 4, 2), (1, 4, 5))):
            yield Case("Einsum", {"inputs": [ramp(left, dtype), ramp(right, dtype, 3)]}, {"equation": equation},
                       f"{dtype.value} {equation}", **close)
    for dtype in kernel_types("_FusedMatMul", "T"):
        for name in ("", "Relu", "Tanh", "Sigmoid", "Relu6", "Elu", "LeakyRelu"):
            fused = ["BiasAdd", *([name] if name else [])]
            x, y = ramp((3, 5), dtype), ramp((5, 4), dtype)
            yield Case("_FusedMatMul", {"a": x, "b": y, "args": [ramp((4,), dtype)]}, {"fused_ops": fused},
                       f"{dtype.value} {name}".strip(), gradient=False, **close)
    for dtype in (DType.F32,):  # for which others there is a kernel depends on the processor
        args = [np.asarray(0.5).astype(dtype.numpy), ramp((2, 1, 3, 4), dtype)]
        x, y = ramp((2, 1, 3, 5), dtype), ramp((2, 1, 5, 4), dtype)
        yield Case("_MklFusedBatchMatMulV2", {"x": x, "y": y, "args": args}, {"fused_ops": ["Mul", "Add"]}, dtype.value,
                   gradient=False, **close)


OPTIMIZERS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    # op: slots, numbers, flags
    "ResourceApplyGradientDescent": (("var",), ("alpha",), ()),
    "ResourceApplyMomentum": (("var", "accum"), ("lr", "momentum"), ("use_nesterov",)),
    "ResourceApplyKerasMomentum": (("var", "accum"), ("lr", "momentum"), ("use_nesterov",)),
    "ResourceApplyAdam": (("var", "m", "v"), ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"),
                          ("use_nesterov",)),
    "ResourceApplyAdaMax": (("var", "m", "v"), ("beta1_power", "lr", "beta1", "beta2", "epsilon"), ()),
    "ResourceApplyRMSProp": (("var", "ms", "mom"), ("lr", "rho", "momentum", "epsilon"), ()),
    "ResourceApplyCenteredRMSProp": (("var", "mg", "ms", "mom"), ("lr", "rho", "momentum", "epsilon"), ()),
    "ResourceApplyAdagrad": (("var", "accum"), ("lr",), ("update_slots",)),
    "ResourceApplyAdagradV2": (("var", "accum"), ("lr", "epsilon"), ("update_slots",)),
    "ResourceApplyAdadelta": (("var", "accum", "accum_update"), ("lr", "rho", "epsilon"), ())}
_NUMBERS = {"alpha": 0.1, "lr": 0.1, "momentum": 0.9, "beta1_power": 0.81, "beta2_power": 0.9, "beta1": 0.9,
            "beta2": 0.95, "epsilon": 1e-3, "rho": 0.9}


def optimizers() -> Iterator[Case]:
    for op, (slots, numbers, flags) in OPTIMIZERS.items():
        for dtype in kernel_types(op, "T"):
            for flag in (False, True) if flags else (False,):
                for label, grad in (("", _normal((7, 5), dtype, 8)), ("special", grid(dtype))):
                    if label and not dtype.is_float:
                        continue
                    inputs: dict[str, Any] = {
                        s: Variable(np.abs(_normal(grad.shape, dtype, i)) + dtype.numpy.type(0.5))
                        for i, s in enumerate(slots)}
                    inputs |= {n: np.asarray(_NUMBERS[n]).astype(dtype.numpy) for n in numbers}
                    inputs["delta" if op.endswith("Descent") else "grad"] = grad
                    yield Case(op, inputs, dict.fromkeys(flags, flag), f"{dtype.value} {flag} {label}".strip(), ulp=8,
                               scale=1)


def variables() -> Iterator[Case]:
    for op in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
        for dtype in kernel_types(op, "dtype"):
            x = grid(dtype)
            yield Case(op, {"resource": Variable(x), "value": np.roll(x, 3)}, label=dtype.value)
    for dtype in kernel_types("ReadVariableOp", "dtype"):
        yield Case("ReadVariableOp", {"resource": Variable(grid(dtype))}, {"dtype": dtype.value}, dtype.value)


def random_numbers() -> Iterator[Case]:
    """Taken to be on a GPU: elsewhere they stay TensorFlow's."""
    for dtype in kernel_types("StatelessRandomGetKeyCounter", "Tseed"):
        for seed in ((0, 0), (-1, 7), (np.iinfo(dtype.numpy).max, np.iinfo(dtype.numpy).min)):
            yield Case("StatelessRandomGetKeyCounter", {"seed": np.array(seed, dtype.numpy)},
                       label=f"{dtype.value} {seed}", device=GPU)
    yield from _draws()
    for op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessRandomUniformIntV2"):
        for dtype in kernel_types(op, "dtype"):
            bounds = {"minval": -3, "maxval": 9} if op == "StatelessRandomUniformIntV2" else {}
            for alg in (1, 3):
                inputs = {"shape": np.array([5, 7], (np.int32, np.int64)[alg % 3]), "alg": np.array(alg, np.int32),
                          **{name: np.asarray(value, dtype.numpy) for name, value in bounds.items()}}
                words = {"key": np.array([1 << 40], np.uint64), "counter": np.array([(1 << 64) - 2, 3], np.uint64)}
                yield Case(op, {name: Fixed(value) for name, value in inputs.items()} | words,
                           {} if bounds else {"dtype": dtype.value}, f"{dtype.value} {alg}", device=GPU,
                           ulp=8 if "Normal" in op else 0, scale=1.0)


def _draws() -> Iterator[Case]:
    """On a CPU; how a GPU draws see tests/frontend/test_random.py."""
    random = np.random.default_rng(0)
    for dtype in kernel_types("StatelessMultinomial", "T"):
        for batch, classes, samples in ((1, 5, 1), (3, 7, 4), (2, 1, 3), (1, 700, 9)):
            logits = (3 * random.standard_normal((batch, classes))).astype(dtype.numpy)
            for whole in (np.int32, np.int64):
                yield Case("StatelessMultinomial", {
                    "logits": logits, "num_samples": Fixed(np.array(samples, np.int32)),
                    "seed": random.integers(-99, 99, 2, whole)}, {"output_dtype": np.dtype(whole).name},
                    f"{dtype.value} {batch} {classes} {samples} {whole.__name__}", gradient=False)
        rest = np.array([[-np.inf, 1, np.nan, 2], [np.inf, np.nan, -np.inf, np.inf]], dtype.numpy)
        yield Case("StatelessMultinomial", {"logits": rest, "num_samples": Fixed(np.array(50, np.int32)),
                                            "seed": np.array([1, 2], np.int32)}, {"output_dtype": "int64"},
                   f"{dtype.value} not finite", gradient=False)
    many = random.standard_normal((300, 9)).astype(np.float32)
    yield Case("StatelessMultinomial", {"logits": many, "num_samples": Fixed(np.array(1, np.int32)),
                                        "seed": np.array([1, 2], np.int32)}, {"output_dtype": "int64"},
               "by several threads", gradient=False)
