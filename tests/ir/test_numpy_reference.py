"""NumPy meaning of ops, where NumPy alone would be off."""

from __future__ import annotations

import numpy as np
import pytest

from tf_stitch.ir import numpy_reference as ref
from tf_stitch.ir.op_attrs import ReduceAttrs


@pytest.mark.parametrize(("shape", "axes"), [((100_000,), (0,)), ((100_000, 3), (0,)), ((3, 100_000), (1,)),
                                             ((100, 3, 1000), (0, 2))])
def test_sums_are_pairwise_along_every_axis(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Of terms each of which is lost beside the first."""
    x = np.full(shape, 2.0 ** -25, "f4")
    x[(0,) * len(shape)] = 1
    want = x.sum(axes, dtype="f8")
    np.testing.assert_allclose(ref.total(ReduceAttrs(axes), x), want, rtol=8 * 2.0 ** -23 * 17)


def test_an_empty_sum_is_zero() -> None:
    np.testing.assert_array_equal(ref.total(ReduceAttrs((0,)), np.zeros((0, 2), "f4")), [0, 0])
