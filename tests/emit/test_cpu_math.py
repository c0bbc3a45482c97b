"""CPU math functions against float64, in units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.differential.runner import CPU, Array, compiled, region, run_host
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.op_table import OP_TABLE

K = OpKind
B = Builder()
LIMIT_ULP, LIMIT_WHOLE_RANGE = 6.0, 4.0
STRIDE = 9973
"""Between bit patterns of floats over the whole range."""
RANGES = {K.EXP: (-87, 88), K.LOG: (1e-6, 1e6), K.LOG1P: (-0.999, 1e4), K.EXPM1: (-20, 80), K.TANH: (-12, 12),
          K.ERF: (-5, 5), K.SIGMOID: (-80, 80), K.RSQRT: (1e-6, 1e6)}


def apply(kind: OpKind, x: Array) -> Array:
    graph = region(kind.value, [B.op(kind, B.input("x:0", DType.of(x.dtype), x.shape))])
    return run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]


def exact(kind: OpKind, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(OP_TABLE[kind].reference(None, x.astype(np.float64)))


def samples(low: float, high: float) -> Array:
    rng = np.random.default_rng(0)
    parts = [np.linspace(low, high, 100_003)]
    magnitude = np.exp(rng.uniform(math.log(1e-30), math.log(max(-low, high)), 100_000))
    parts.append(magnitude if low >= 0 else magnitude * rng.choice([-1, 1], magnitude.size))
    return np.clip(np.concatenate(parts), low, high).astype(np.float32)


@pytest.mark.parametrize("kind", RANGES)
def test_error_in_ulp(kind: OpKind, record_property: pytest.RecordProperty) -> None:  # type: ignore[name-defined]
    x = samples(*RANGES[kind])
    want = exact(kind, x)
    normal = np.abs(want) > np.finfo(np.float32).tiny
    spacing = np.spacing(np.maximum(np.abs(want), np.finfo(np.float32).tiny).astype(np.float32)).astype(np.float64)
    ulp = np.where(normal, np.abs(apply(kind, x).astype(np.float64) - want) / spacing, 0)
    worst = int(np.argmax(ulp))
    record_property("max_ulp", float(ulp[worst]))
    print(f"{kind.value}: {ulp[worst]:.2f} ulp at {x[worst]!r}")
    assert ulp[worst] <= LIMIT_ULP, f"{kind.value}({x[worst]!r}) is {ulp[worst]:.1f} ulp off"


@pytest.mark.parametrize("kind", [K.EXP, K.LOG, K.TANH, K.ERF])
def test_error_over_all_floats(kind: OpKind) -> None:
    x = np.arange(0, 1 << 32, STRIDE, np.uint64).astype(np.uint32).view(np.float32)
    x = x[np.isfinite(x) & ((x > 0) | (kind is not K.LOG))]
    want = exact(kind, x)
    with np.errstate(over="ignore"):
        kept = (np.abs(want) >= np.finfo(np.float32).tiny) & np.isfinite(want.astype(np.float32))
    assert kept.sum() > 200_000
    off = np.abs(apply(kind, x)[kept].astype(np.float64) - want[kept])
    ulp = off / np.spacing(np.abs(want[kept]).astype(np.float32))
    worst = int(np.argmax(ulp))
    assert ulp[worst] <= LIMIT_WHOLE_RANGE, f"{kind.value}({x[kept][worst]!r}) is {ulp[worst]:.1f} ulp off"


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 1.0, -1.0, 200.0, -200.0,
                    88.7, 88.8, -103.9, -104.1, 1e-8, -1e-8, -0.9999999], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [*RANGES, K.ERFC, K.SQRT, K.SIGN, K.ABS, K.RECIPROCAL, K.FLOOR, K.RINT])
def test_special_values(kind: OpKind, dtype: type[np.floating]) -> None:
    x = SPECIAL.astype(dtype)
    got = apply(kind, x)
    with np.errstate(all="ignore"):
        want = exact(kind, x).astype(dtype)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_allclose(got[finite], want[finite], rtol=2e-6, atol=2e-45)
    zeros = want == 0
    np.testing.assert_array_equal(got[zeros], 0)


def cast(x: Array, dtype: DType) -> Array:
    graph = region("cast", [B.cast(B.input("x:0", DType.of(x.dtype), x.shape), dtype)])
    return run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]


def test_every_half_is_read_as_it_is() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    got, want = cast(x, DType.F32), x.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_floats_are_rounded_to_the_nearest_half() -> None:
    every = np.arange(0, 1 << 32, STRIDE, np.uint64).astype(np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    between = np.concatenate([halves, halves + 0x1000, halves + 0xFFF, halves + 0x1001])  # ties, and beside them
    x = np.concatenate([every, between]).astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    got = cast(x, DType.F16)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
