"""What compilers make of a function of a function: of numbers that are none, and of infinities, the same as of each by
itself."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from tests.differential.runner import CPU, compiled, region, run_host
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind

KINDS = (OpKind.SIN, OpKind.COS, OpKind.TAN, OpKind.ATAN, OpKind.SINH, OpKind.COSH, OpKind.TANH, OpKind.ASINH,
         OpKind.ATANH, OpKind.EXP, OpKind.LOG, OpKind.SQRT, OpKind.RSQRT, OpKind.ABS)
EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.75, 1.0, 3.0])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_pairs(dtype: DType) -> None:
    b = Builder()
    pairs = list(itertools.product(KINDS, KINDS))
    keys = [f"x{i}:0" for i in range(len(pairs))]  # each its own: gcc leaves a value alone that others read, too
    graph = region("pairs", [b.op(outer, b.op(inner, b.input(key, dtype, EDGES.shape)))
                             for key, (outer, inner) in zip(keys, pairs, strict=True)])
    values = dict.fromkeys(keys, EDGES.astype(dtype.numpy))
    got = run_host(graph, compiled(graph, CPU), values)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = interpret(graph, values)
    for i, (outer, inner) in enumerate(pairs):
        np.testing.assert_allclose(got[f"o{i}"], want[f"o{i}"], rtol=1e-4, atol=1e-6,
                                   err_msg=f"{outer.value} of {inner.value}")
