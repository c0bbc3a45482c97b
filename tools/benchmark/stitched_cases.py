"""Matmuls of language and vision models with what is around them beyond a library's epilogues, as graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind

B = Builder()
F32, F16, BF16 = DType.F32, DType.F16, DType.BF16


@dataclass(frozen=True)
class StitchedCase:
    """A pattern at one size: activations [m, k], weights [k, n]."""

    pattern: str
    model: str
    dtype: DType
    m: int
    k: int
    n: int

    @property
    def name(self) -> str:
        return f"{self.pattern} {self.model} {self.dtype.value} {self.m}x{self.k}x{self.n}"

    def graph(self) -> TensorGraph:
        return TensorGraph("case", [("o0", PATTERNS[self.pattern](self))])


def _in(case: StitchedCase, name: str, *shape: int) -> Node:
    return B.input(name, case.dtype, shape)


def _dot(case: StitchedCase, x: Node | None = None) -> Node:
    x = _in(case, "x", case.m, case.k) if x is None else x
    return B.dot(x, _in(case, "w", case.k, case.n))


def _row(vector: Node, like: Node) -> Node:
    return B.broadcast(vector, like.type.shape)


def _bias(case: StitchedCase, x: Node) -> Node:
    return B.add(x, _row(_in(case, "b", case.n), x))


def gate(case: StitchedCase) -> Node:
    """silu(x w) * y: the second half of SwiGLU."""
    product = _dot(case)
    return B.mul(B.mul(product, B.op(OpKind.SIGMOID, product)), _in(case, "y", case.m, case.n))


def gelu(case: StitchedCase) -> Node:
    """Gelu by erf, with a bias."""
    x = _bias(case, _dot(case))
    half = B.mul(x, B.scalar_like(0.5, x))
    return B.mul(half, B.add(B.scalar_like(1, x), B.op(OpKind.ERF, B.mul(x, B.scalar_like(0.70710678, x)))))


def residual(case: StitchedCase) -> Node:
    """y + g * (x w + b): a layer's scale and residual."""
    x = _bias(case, _dot(case))
    return B.add(_in(case, "y", case.m, case.n), B.mul(x, _row(_in(case, "g", case.n), x)))


def dropout(case: StitchedCase) -> Node:
    """y + dropout(x w + b), by a mask."""
    x = _bias(case, _dot(case))
    kept = B.input("mask", DType.BOOL, (case.m, case.n))
    return B.add(_in(case, "y", case.m, case.n),
                 B.select(kept, B.mul(x, B.scalar_like(1.25, x)), B.scalar_like(0, x)))


def gradient(case: StitchedCase) -> Node:
    """(x w) * silu'(y): a gradient on its way back through an activation."""
    product, y = _dot(case), _in(case, "y", case.m, case.n)
    s = B.op(OpKind.SIGMOID, y)
    slope = B.mul(s, B.add(B.scalar_like(1, y), B.mul(y, B.sub(B.scalar_like(1, y), s))))
    return B.mul(product, slope)


def _normal(case: StitchedCase) -> Node:
    x = B.cast(_in(case, "x", case.m, case.k), F32)
    scaled = B.mul(B.mul(x, B.input("r", F32, (case.m, 1))), _row(B.input("g", F32, (case.k,)), x))
    return B.cast(scaled, case.dtype)


def normal_gate(case: StitchedCase) -> Node:
    """RMS norm by given row statistics, then as `gate`."""
    product = _dot(case, _normal(case))
    return B.mul(B.mul(product, B.op(OpKind.SIGMOID, product)), _in(case, "y", case.m, case.n))


def normal(case: StitchedCase) -> Node:
    """RMS norm by given row statistics, then the matmul alone."""
    return _dot(case, _normal(case))


PATTERNS: dict[str, Callable[[StitchedCase], Node]] = {
    function.__name__: function for function in (gate, gelu, residual, dropout, gradient, normal_gate, normal)}

CASES = tuple(StitchedCase(*case) for case in (
    ("gate", "llama", BF16, 2048, 1024, 2816), ("residual", "vit", BF16, 6304, 768, 768),
    ("gelu", "bert", BF16, 2048, 768, 3072), ("normal_gate", "llama", BF16, 2048, 1024, 2816),
    ("gradient", "llama", BF16, 2048, 1024, 2816), ("dropout", "bert", F16, 2048, 768, 768),
    ("residual", "gpt2 batch 1", F32, 256, 768, 768), ("gelu", "gpt2 batch 1", F32, 256, 768, 3072),
    ("gate", "llama batch 1", BF16, 512, 1024, 2816), ("normal", "gpt2", BF16, 4096, 768, 2304),
    ("gelu", "vit", BF16, 6304, 768, 3072), ("residual", "vit", BF16, 6304, 3072, 768),
    ("residual", "bert", F16, 2048, 3072, 768), ("dropout", "gpt2", BF16, 4096, 768, 768),
    ("dropout", "gpt2", BF16, 4096, 3072, 768), ("gelu", "gpt2", BF16, 4096, 768, 3072),
    ("gelu", "bert", F32, 2048, 768, 3072), ("residual", "gpt2 batch 1", BF16, 256, 768, 768),
    ("residual", "gpt2 batch 1", BF16, 256, 3072, 768), ("gelu", "gpt2 batch 1", BF16, 256, 768, 3072),
    ("gate", "llama 7b", BF16, 512, 4096, 11008), ("gate", "llama 7b", BF16, 2048, 4096, 11008),
    ("gradient", "gpt2", BF16, 4096, 768, 3072), ("gradient", "vit", F16, 6304, 768, 3072),
    ("normal", "llama", BF16, 2048, 1024, 3072), ("normal", "llama batch 1", BF16, 512, 1024, 3072),
    ("residual", "vit", F32, 6304, 768, 768), ("gate", "t5", BF16, 4096, 512, 1024),
    ("dropout", "bert", F16, 2048, 3072, 768), ("gate", "t5", F32, 4096, 512, 1024),
    ("residual", "small", BF16, 8192, 256, 256), ("gelu", "small", BF16, 16384, 128, 512),
    ("gelu", "convnext", BF16, 100352, 96, 384), ("residual", "convnext", BF16, 100352, 384, 96),
    ("gradient", "resnet", BF16, 100352, 64, 256), ("gate", "resnet", BF16, 25088, 512, 128)))
"""Those first of which a short run should know."""
