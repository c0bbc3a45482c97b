"""Attentions and their gradients by TensorFlow's ops have their nodes' values."""

from __future__ import annotations

import pytest

from tests.differential.runner import compare, random_values, reference, region
from tests.libraries.test_attention import attention_nodes, sharing_node
from tf_stitch.frontend.tensorflow.exporter import run_with_tensorflow
from tf_stitch.ir.dtypes import DType


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=lambda d: d.value)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows_outside", [False, True])
def test_attentions_are_exported(dtype: DType, causal: bool, rows_outside: bool) -> None:
    nodes = attention_nodes(dtype, queries=7, causal=causal, rows_outside=rows_outside)
    graph = region("g", [*nodes.values()])
    values = random_values(graph)
    compare(graph, run_with_tensorflow(graph, values), *reference(graph, values), "TensorFlow")


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys_are_exported(causal: bool) -> None:
    graph = region("g", [sharing_node(DType.BF16, queries=7, causal=causal)])
    values = random_values(graph)
    compare(graph, run_with_tensorflow(graph, values), *reference(graph, values), "TensorFlow")
