"""Functions of halves are as exact as their comments say, beside float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.runner import compiled, region
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind

B = Builder()
ERROR, LEAST = 2.0**-16, 2.0**-126
NAMES = ("exp", "sigmoid", "erfc")


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


WANTED: dict[str, Callable[[float], float]] = {"exp": math.exp, "sigmoid": _sigmoid, "erfc": math.erfc}


def results(name: str, x: np.ndarray) -> np.ndarray:
    """Of the halves x, before they are rounded to halves themselves."""
    node: Node = B.op(OpKind(name), B.input("x:0", DType.F16, (x.size,)))
    graph = region("g", [B.cast(node, DType.F32)])
    built = compiled(graph, H200)
    assert f"tfs_{name}_half(" in built.source
    return run_on_cpu(graph, built, {"x:0": x}, Adversary(Order.ABREAST))["o0"]


@pytest.mark.parametrize("name", NAMES)
def test_errors(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x) & (np.abs(x) < 80)]
    got, want = results(name, x).astype(np.float64), np.array([WANTED[name](float(v)) for v in x])
    large = want > LEAST
    assert np.abs(got[large] / want[large] - 1).max() < ERROR
    assert (got[~large] <= LEAST).all()


@pytest.mark.parametrize("name", NAMES)
def test_infinities_and_nan(name: str) -> None:
    got = results(name, np.array([np.inf, -np.inf, np.nan], np.float16))
    np.testing.assert_array_equal(got, {"exp": [np.inf, 0, np.nan], "sigmoid": [1, 0, np.nan],
                                        "erfc": [0, 2, np.nan]}[name])  # fmt: skip
