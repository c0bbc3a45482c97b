"""Losses of a matmul's rows and their gradients, as regions of train steps hold them."""

from __future__ import annotations

import numpy as np

from tests.differential.runner import Values, random_values, region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind

B = Builder()
KINDS = ("sparse", "dense", "smoothed", "masked", "ignored")
IGNORED = 3
"""A label whose rows count nothing."""


def loss(kind: str, rows: int = 64, width: int = 32, classes: int = 512, dtype: DType = DType.F32,
         of_bias: bool = True) -> TensorGraph:
    """The cross entropy of a matmul with a bias, and the gradients of rows, weights and bias.

    Args:
        kind: one of KINDS: labels are classes, or sum to one in each row; rows are weighed, or some left out.
        of_bias: the gradient of the bias is wanted, too.
    """
    h, w = B.input("h:0", dtype, (rows, width)), B.input("w:0", dtype, (width, classes))
    bias = B.input("b:0", dtype, (classes,))
    logits = B.cast(B.add(B.dot(h, w), bias), DType.F32)
    maximum = B.reduce(OpKind.MAX, logits, [1], keepdims=True)
    exp = B.exp(B.sub(logits, maximum))
    total = B.sum(exp, [1], keepdims=True)
    log_total = B.add(B.op(OpKind.LOG, total), maximum)
    if kind in ("dense", "smoothed"):
        wanted = B.input("labels:0", DType.F32, (rows, classes))
        if kind == "smoothed":
            wanted = B.add(B.mul(wanted, B.constant(0.9, DType.F32)), B.constant(0.1 / classes, DType.F32))
        of_rows = B.sum(B.mul(wanted, B.sub(log_total, logits)), [1], keepdims=True)
    else:
        labels = B.input("labels:0", DType.I64, (rows,))
        first = B.mul(B.positions((rows,), DType.I64), B.extent((classes,), DType.I64))
        found = B.op(OpKind.GATHER, B.reshape(logits, (rows * classes,)), B.add(first, labels))
        of_rows = B.sub(log_total, B.reshape(found, (rows, 1)))
        hit = B.op(OpKind.EQUAL, B.reshape(labels, (rows, 1)), B.iota((1, classes), 1, DType.I64))
        wanted = B.cast(hit, DType.F32)
    weight = _weights(kind, rows, labels if kind == "ignored" else None)
    back = B.cast(B.mul(B.sub(B.div(exp, total), wanted), weight), dtype)
    return region("loss", [B.sum(B.mul(of_rows, weight), [0, 1]), B.dot(back, w, transpose_b=True),
                           B.dot(h, back, transpose_a=True), *[B.sum(B.cast(back, DType.F32), [0])] * of_bias])


def _weights(kind: str, rows: int, labels: Node | None) -> Node:
    """Of each row [rows, 1]."""
    if labels is not None:
        counted = B.op(OpKind.NOT_EQUAL, labels, B.constant(IGNORED, DType.I64))
        counted = B.reshape(B.cast(counted, DType.F32), (rows, 1))
        return B.div(counted, B.sum(counted, [0], keepdims=True))
    if kind == "masked":
        return B.reshape(B.input("weights:0", DType.F32, (rows,)), (rows, 1))
    return B.constant(np.full((rows, 1), 1 / rows), DType.F32)


def values_of(graph: TensorGraph, classes: int = 512) -> Values:
    """Values of its inputs: labels are among the classes, or sum to one."""
    values, rng = random_values(graph), np.random.default_rng(1)
    labels = values["labels:0"]
    if labels.ndim == 1:
        return values | {"labels:0": rng.integers(0, classes, labels.shape)}
    chances = np.exp(labels)
    return values | {"labels:0": chances / chances.sum(1, keepdims=True)}
