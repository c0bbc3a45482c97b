"""Rows of few columns, one behind the other or padded, as gcc makes them: its vectors take several rows at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_host
from tests.support.tiers import rows_of_each_commit
from tf_stitch.device.spec import CPU
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node

B = p.B


def one(dtype: DType) -> Node:
    return B.constant(1, dtype)


FORMS: dict[str, Callable[[Node, Node], Node]] = {
    "rows": lambda x, y: B.concat([B.mul(x, x), y], 0),
    "both computed": lambda x, y: B.add(B.concat([x, y], 0), one(x.type.dtype)),
    "three": lambda x, y: B.neg(B.concat([y, x, y], 0)),
    "padded": lambda x, y: B.add(B.pad(x, B.constant(2, x.type.dtype), (7, 0), (y.type.dims[0], 0)),
                                 one(x.type.dtype)),
    "before and behind": lambda x, y: B.mul(x, B.pad(B.slice(x, (3, 0), (1, 1), (x.type.dims[0] - 5, x.type.dims[1])),
                                                     one(x.type.dtype), (2, 0), (3, 0))),
}  # fmt: skip


CASES = list(product(FORMS, (2, 3, 4), (DType.F32, DType.F16, DType.I32, DType.F64)))
IN_TURN = [(*of, dtype) for of, dtype in zip(product(FORMS, (2, 3, 4)),
                                              cycle((DType.F16, DType.I32, DType.F64, DType.F16)), strict=False)]
"""Each commit has every form in float32, and in one other type."""


@pytest.mark.parametrize(("form", "columns", "dtype"), rows_of_each_commit(
    [*(case for case in CASES if case[2] is DType.F32), *IN_TURN], CASES))
def test_rows_of_few_columns(form: str, columns: int, dtype: DType) -> None:
    outputs = []
    for n, m in ((7, 9), (1023, 3), (33, 31), (127, 31), (15, 1)):
        x, y = (B.input(f"{key}{n}:0", dtype, (rows, columns)) for key, rows in (("x", n), ("y", m)))
        outputs.append(FORMS[form](x, y))
    graph = region("rows", outputs)
    values = random_values(graph)
    built = compiled(graph, CPU)
    assert len(built.kernels) == len(outputs), "each is as it is alone"
    compare(graph, run_host(graph, built, values), *reference(graph, values), f"{form} {columns}")
