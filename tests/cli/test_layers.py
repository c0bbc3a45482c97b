"""Layers by the names of ops."""

from __future__ import annotations

import pytest

from tf_stitch.cli.explain.layers import Layers

NAMES = ["sequential_1/dense_1/BiasAdd", "sequential_1/dense_1/Gelu/mul", "sequential_1/dense_1/Gelu/Erf",
         "sequential_1/block_1/add", "sequential_1/block_1/attention/Softmax",
         "gradient_tape/sequential_1/dense_1/Gelu/mul/Mul_1", "StatefulPartitionedCall/sequential_1/norm_1/mul",
         "ArithmeticOptimizer/AddOpsRewrite_add", "adam/mul_4", "adam/Sub_3/ReadVariableOp", "loss"]


@pytest.mark.parametrize(("name", "layer"), [
    ("sequential_1/dense_1/Gelu/mul", "dense_1"),
    ("sequential_1/block_1/attention/Softmax", "block_1"),
    ("gradient_tape/sequential_1/dense_1/Gelu/mul/Mul_1", "gradient of dense_1"),
    ("StatefulPartitionedCall/sequential_1/norm_1/mul", "norm_1"),
    ("ArithmeticOptimizer/AddOpsRewrite_add", ""),
    ("adam/Sub_3/ReadVariableOp", "adam"),
    ("loss", ""),
])  # fmt: skip
def test_the_layer_of_an_op(name: str, layer: str) -> None:
    assert Layers(NAMES).of(name) == layer


def test_the_layers_of_several_ops() -> None:
    layers = Layers(NAMES)
    assert layers.of_all(NAMES) == "dense_1, block_1, adam, 2 more"
    assert layers.of_all(["loss"]) == ""
