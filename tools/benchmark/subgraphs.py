"""The fourteen memory-intensive subgraphs that the field is measured by, at any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tools.benchmark.maths import IR_MATHS, ROOT_HALF, Maths, Traced

EPSILON = 1e-5
LEARNING_RATE, BETA_1, BETA_2, ADAM_EPSILON = 1e-3, 0.9, 0.999, 1e-7
KEEP = 0.9

Values = Mapping[str, Any]
Formula = Callable[[Maths, Any], dict[str, Any]]


@dataclass(frozen=True)
class Operand:
    """A tensor that comes in.

    Attributes:
        shape: of "r" (rows), "c" (columns) and "1".
        kind: what it holds: "normal", "positive", "mask" (0 or 1 / KEEP) or "labels" (int32 below columns).
        updated: it is a variable, and the output of the same name is its new value.
    """

    shape: str
    kind: str = "normal"
    updated: bool = False


@dataclass(frozen=True)
class Subgraph:
    """A formula over float32 matrices of `rows` by `columns`.

    Attributes:
        reads: how often the floor counts each operand, where that is not once.
    """

    name: str
    rows: int
    columns: int
    operands: Mapping[str, Operand]
    formula: Formula
    reads: Mapping[str, int] = field(default_factory=dict)

    def shape(self, operand: str) -> tuple[int, ...]:
        sizes = {"r": self.rows, "c": self.columns, "1": 1}
        return tuple(sizes[letter] for letter in self.operands[operand].shape)

    def evaluate(self, maths: Maths, values: Values) -> dict[str, Any]:
        """Outputs by name, by the library of `maths`."""
        return self.formula(maths, SimpleNamespace(**values))

    def graph(self) -> TensorGraph:
        """The subgraph as tensor IR."""
        build = Builder()
        nodes: dict[str, Node] = {}
        for name, operand in self.operands.items():
            dtype = DType.I32 if operand.kind == "labels" else DType.F32
            make = build.variable if operand.updated else build.input
            nodes[name] = make(name, dtype, self.shape(name))
        outputs = self.evaluate(IR_MATHS, {name: Traced(node) for name, node in nodes.items()})
        updated = {name for name, operand in self.operands.items() if operand.updated}
        return TensorGraph(self.name, [
            (name, build.assign(name, value.node) if name in updated else value.node)
            for name, value in outputs.items()])  # fmt: skip

    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name, operand in self.operands.items() if not operand.updated)

    def variables(self) -> tuple[str, ...]:
        return tuple(name for name, operand in self.operands.items() if operand.updated)

    def floor_bytes(self) -> int:
        """Bytes of operands and outputs, each once but for `reads`."""
        incoming = sum(4 * math.prod(self.shape(name)) * self.reads.get(name, 1) for name in self.operands)
        return incoming + sum(_bytes_of(node) for _, node in self.graph().outputs)

    def resized(self, rows: int, columns: int) -> Subgraph:
        """The same formula at another size."""
        return replace(self, rows=rows, columns=columns)


def _bytes_of(node: Node) -> int:
    return node.type.nbytes


def _normalise(m: Maths, x: Any, gamma: Any, beta: Any) -> Any:
    centred = x - m.mean(x, 1)
    return centred * m.rsqrt(m.mean(centred * centred, 1) + EPSILON) * gamma + beta


def layer_norm(m: Maths, v: Any) -> dict[str, Any]:
    return {"y": _normalise(m, v.x, v.gamma, v.beta)}


def layer_norm_backward(m: Maths, v: Any) -> dict[str, Any]:
    unit = (v.x - v.mean) * v.scale
    weighted = v.dy * v.gamma
    dx = v.scale * (weighted - m.mean(weighted, 1) - unit * m.mean(weighted * unit, 1))
    return {"dx": dx, "dgamma": m.sum(v.dy * unit, 0), "dbeta": m.sum(v.dy, 0)}


def softmax(m: Maths, v: Any) -> dict[str, Any]:
    e = m.exp(v.x - m.max(v.x, 1))
    return {"y": e / m.sum(e, 1)}


def bias_gelu(m: Maths, v: Any) -> dict[str, Any]:
    x = v.x + v.bias
    return {"y": x * 0.5 * (m.erf(x * ROOT_HALF) + 1.0)}


def bias_dropout_residual_layer_norm(m: Maths, v: Any) -> dict[str, Any]:
    return {"y": _normalise(m, (v.x + v.bias) * v.mask + v.residual, v.gamma, v.beta)}


def row_sum(m: Maths, v: Any) -> dict[str, Any]:
    return {"y": m.sum(v.x, 1)}


def column_sum(m: Maths, v: Any) -> dict[str, Any]:
    return {"y": m.sum(v.x, 0)}


def batch_norm_training(m: Maths, v: Any) -> dict[str, Any]:
    mean = m.mean(v.x, 0)
    centred = v.x - mean
    variance = m.mean(centred * centred, 0)
    return {"y": centred * m.rsqrt(variance + EPSILON) * v.gamma + v.beta, "mean": mean, "variance": variance}


def cross_entropy_forward_backward(m: Maths, v: Any) -> dict[str, Any]:
    shifted = v.x - m.max(v.x, 1)
    e = m.exp(shifted)
    total = m.sum(e, 1)
    chosen = m.one_hot(v.labels, v.x.node.type.dims[1] if isinstance(v.x, Traced) else v.x.shape[1])
    return {"loss": m.log(total) - m.sum(shifted * chosen, 1), "dx": e / total - chosen}


def adam(m: Maths, v: Any) -> dict[str, Any]:
    first = v.first * BETA_1 + v.gradient * (1 - BETA_1)
    second = v.second * BETA_2 + v.gradient * v.gradient * (1 - BETA_2)
    weight = v.weight - first * LEARNING_RATE / (m.sqrt(second) + ADAM_EPSILON)
    return {"weight": weight, "first": first, "second": second}


_X = {"x": Operand("rc")}
_AFFINE = {"gamma": Operand("c"), "beta": Operand("c")}
_BACKWARD = {**_X, "dy": Operand("rc"), "gamma": Operand("c"),
             "mean": Operand("r1"), "scale": Operand("r1", "positive")}
_RESIDUAL = {**_X, "bias": Operand("c"), "mask": Operand("rc", "mask"), "residual": Operand("rc"), **_AFFINE}
_ADAM = {"weight": Operand("c", updated=True), "first": Operand("c", updated=True),
         "second": Operand("c", "positive", updated=True), "gradient": Operand("c")}  # fmt: skip

SUBGRAPHS = (
    Subgraph("layernorm 131072x1024", 131072, 1024, {**_X, **_AFFINE}, layer_norm),
    Subgraph("layernorm backward 65536x1024", 65536, 1024, _BACKWARD, layer_norm_backward),
    Subgraph("softmax 131072x1024", 131072, 1024, _X, softmax),
    Subgraph("softmax 4096x32000", 4096, 32000, _X, softmax),
    Subgraph("softmax 64x500000", 64, 500000, _X, softmax),
    Subgraph("softmax 4000000x32", 4000000, 32, _X, softmax),
    Subgraph("bias gelu 65536x4096", 65536, 4096, {**_X, "bias": Operand("c")}, bias_gelu),
    Subgraph("bias dropout residual layernorm 65536x1024", 65536, 1024, _RESIDUAL, bias_dropout_residual_layer_norm),
    Subgraph("row sum 7500000x32", 7500000, 32, _X, row_sum),
    Subgraph("row sum 64x3000000", 64, 3000000, _X, row_sum),
    Subgraph("column sum 262144x1024", 262144, 1024, _X, column_sum),
    Subgraph("batchnorm training 262144x256", 262144, 256, {**_X, **_AFFINE}, batch_norm_training, {"x": 2}),
    Subgraph("cross-entropy forward backward 8192x32000", 8192, 32000, {**_X, "labels": Operand("r", "labels")},
             cross_entropy_forward_backward),
    Subgraph("adam 100000000", 1, 100_000_000, _ADAM, adam),
)
"""Names say rows by columns; sizes are beyond the 50 MB of an H200's L2 cache."""

IRREGULAR = tuple(
    Subgraph(f"{formula.__name__.replace('_', ' ')} {rows}x{columns}", rows, columns, _X, formula)
    for formula in (row_sum, softmax)
    for rows, columns in ((750000, 32), (64, 30000), (8192, 77), (3, 1000003), (1, 50_000_000), (100000, 1)))
"""Rows few, many, short, long and of prime length; most fit into the L2 cache."""
