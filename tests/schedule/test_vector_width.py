"""How wide accesses may be."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.schedule.vector_width import vector_width

B, F32, K = p.B, DType.F32, OpKind


@pytest.mark.parametrize(("dtype", "columns", "width"),
                         [(F32, 1000, 4), (F32, 1002, 2), (F32, 1003, 1), (DType.F16, 1000, 8),
                                                         (DType.F64, 1000, 2), (DType.BOOL, 1000, 8)])
def test_vector_width(dtype: DType, columns: int, width: int) -> None:
    pattern = whole(B.select(x(4, columns, dtype=dtype), *(2 * [x(4, columns, dtype=dtype)]))
                    if dtype is DType.BOOL else B.neg(x(4, columns, dtype=dtype)))
    assert vector_width(pattern, columns, True) == width
    assert vector_width(pattern, columns, False) == 1
