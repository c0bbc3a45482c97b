"""The best k elements of rows, as TensorFlow's node becomes IR, on every level: all have to be the right ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import build_cubin, compiled, run_host, run_kernel_ir
from tests.frontend.check import trace
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.bind import bind
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret

SMALL, LONG = (3, 37), (2, 1061)


def rows(shape: tuple[int, ...], kind: str) -> Any:
    random = np.random.default_rng(0)
    if kind == "ints":
        return random.integers(-9, 9, shape).astype(np.int32)
    x = random.standard_normal(shape).astype(np.float32)
    if kind == "ties":
        return np.round(x)
    if kind == "few":  # nearly all are what nobody would choose
        return np.where(x > 2.2, x, -np.inf).astype(np.float32)
    if kind == "special":
        x[0, 3], x[0, 9], x[1, ::2], x[-1, 5:8] = np.nan, -np.nan, -0.0, np.inf
        x[1, 1::2] = 0.0
    return x.astype(np.float16) if kind == "halves" else x


def best(x: Any, k: int) -> Any:
    """Indices, by definition: NaN first, then the larger, then the lower index."""
    low_first = np.where(np.isnan(x), -np.inf, -x.astype(np.float64))
    return np.lexsort((low_first, ~np.isnan(x)))[:, :k].astype(np.int32)


@pytest.mark.parametrize("kind", ["floats", "halves", "ints", "ties", "few", "special"])
@pytest.mark.parametrize("shape", [SMALL, LONG], ids=["small", "long"])
@pytest.mark.parametrize("k", [1, 4])
def test_top_k(kind: str, shape: tuple[int, ...], k: int) -> None:
    x = rows(shape, kind)
    traced = trace(lambda x: tf.math.top_k(x, k), tf.TensorSpec(x.shape, x.dtype))
    outputs = [(t.name, traced.imported.value(t.name)) for t in traced.concrete.graph.outputs]
    graph = bind(TensorGraph("top_k", [(name, node) for name, node in outputs if node is not None]), {"x:0": x.shape})
    wanted = best(x, k)
    on_cpu, on_gpu = compiled(graph, CPU), compiled(graph, H200)
    build_cubin(on_gpu)
    for got in (interpret(graph, {"x:0": x}), run_kernel_ir(graph, on_cpu, {"x:0": x}),
                run_kernel_ir(graph, on_gpu, {"x:0": x}), run_host(graph, on_cpu, {"x:0": x})):
        values, places = (got[name] for name, _ in outputs)
        np.testing.assert_array_equal(places, wanted)
        exact = np.take_along_axis(x, wanted, 1)
        np.testing.assert_array_equal(values.view(f"u{x.itemsize}"), exact.view(f"u{x.itemsize}"))
