"""Functions of halves are as exact as their comments say, beside float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.runner import compiled, region
from tests.emit.ptx import ptx_of
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


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_scaled_for_small_results(name: str) -> None:
    """ptxas does that for instructions that keep what is below 2^-126."""
    code = ptx_of(region("g", [B.op(OpKind(name), B.input("x:0", DType.BF16, (1 << 20,)))]))
    assert code.count("ex2.approx.ftz.f32") == code.count("ex2.approx") == 8
    assert code.count("rcp.approx.ftz.f32") == (0 if name == "exp" else 8)


@pytest.mark.parametrize(("dtype", "convert"), [(DType.F16, "cvt.rn.f16x2.f32"), (DType.BF16, "cvt.rn.bf16x2.f32")])
def test_halves_are_stored_by_pairs(dtype: DType, convert: str) -> None:
    code = ptx_of(region("g", [B.cast(B.input("x:0", DType.F32, (1 << 20,)), dtype)]))
    assert code.count(convert) == code.count("cvt.rn") == 2
    assert code.count("st.global") == 1


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_pairs_are_rounded_to_the_nearest(dtype: DType) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32)
    ends = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 65520, 1e-45, 3.4e38], np.float32)
    x = np.concatenate([bits.view(np.float32), ends])
    graph = region("g", [B.cast(B.input("x:0", DType.F32, x.shape), dtype)])
    with np.errstate(over="ignore", invalid="ignore"):
        want = x.astype(dtype.numpy)
    got = run_on_cpu(graph, compiled(graph, H200), {"x:0": x}, Adversary(Order.ABREAST))["o0"]
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
