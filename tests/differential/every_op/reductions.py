"""Cases of reductions, running sums and the best elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.differential.every_op.case import Array, Case, Fixed, kernel_types, ramp
from tests.differential.every_op.values import floats, grid
from tf_stitch.ir.dtypes import DType


def rows(dtype: DType) -> Array:
    """Rows of ordinary numbers, of zeros, of NaN, of infinities of one sign and of two, of the largest numbers."""
    rows = [ramp((9,), dtype), ramp((9,), dtype, 3)]
    if dtype.is_float:
        values = floats(dtype)
        largest, inf = values[np.isfinite(values.astype(np.float64))].max(), values.dtype.type(np.inf)
        nan = values.dtype.type(np.nan)
        base = ramp((9,), dtype, 5)
        for changes in ({2: inf}, {2: -inf}, {0: inf, 8: -inf}, {8: nan}, {0: nan}, {3: largest, 4: largest},
                        {1: -values.dtype.type(0)}):
            row = base.copy()
            for at, value in changes.items():
                row[at] = value
            rows.append(row)
        rows += [np.full(9, v, dtype.numpy) for v in (0.0, -0.0, np.inf, -np.inf, np.nan)]
    else:
        rows += [np.resize(grid(dtype), 9), np.resize(grid(dtype)[::-1], 9), np.zeros(9, dtype.numpy)]
    return np.stack(rows)


def _number(value: int, dtype: Any = np.int32) -> Fixed:
    return Fixed(np.array(value, dtype))


def _axes(*axes: int, dtype: Any = np.int32) -> Fixed:
    return Fixed(np.array(axes, dtype))


REDUCTIONS = ("Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm", "All", "Any")


def reductions() -> Iterator[Case]:
    for op in REDUCTIONS:
        types = (DType.BOOL,) if op in ("All", "Any") else kernel_types(op, "T")
        exact = op in ("Max", "Min", "All", "Any")
        for dtype in types:
            close: dict[str, Any] = {} if exact or not dtype.is_float else {"ulp": 4, "scale": 8}
            for label, x, axes, keep in (
                    ("rows", rows(dtype), _axes(1), False), ("columns", rows(dtype), _axes(0), True),
                    ("all", ramp((5, 7), dtype), _axes(0, -1, dtype=np.int64), False),
                    ("none", ramp((5, 7), dtype), _axes(), False),
                    ("outer", ramp((3, 4, 5), dtype), _axes(0, 2), False), ("scalar", ramp((), dtype), _axes(), False),
                    ("of nothing", ramp((3, 0), dtype), _axes(1), False),
                    ("to nothing", ramp((0, 3), dtype), _axes(1), False)):
                yield Case(op, {"input": x, "reduction_indices": axes}, {"keep_dims": keep}, f"{dtype.value} {label}",
                           **close)
    for op in ("ArgMax", "ArgMin"):
        for dtype in kernel_types(op, "T"):
            for label, axis, out in (("rows", 1, "int32"), ("columns", 0, "int64"), ("last", -1, "int64")):
                yield Case(op, {"input": rows(dtype), "dimension": _number(axis)}, {"output_type": out},
                           f"{dtype.value} {label}")
    for dtype in kernel_types("L2Loss", "T"):
        yield Case("L2Loss", {"t": ramp((5, 7), dtype)}, label=dtype.value, ulp=4)
    for dtype in kernel_types("Cumsum", "T"):
        for label, axis, exclusive, reverse in (("", 1, False, False), ("exclusive", -1, True, False),
                                                ("reverse", 0, False, True), ("both", 0, True, True)):
            yield Case("Cumsum", {"x": rows(dtype), "axis": _number(axis)},
                       {"exclusive": exclusive, "reverse": reverse},
                       f"{dtype.value} {label}".strip(), ulp=4, scale=16)
    for dtype in kernel_types("Cumprod", "T"):
        for label, axis, exclusive, reverse in (("", 1, False, False), ("exclusive", -1, True, False),
                                                ("reverse", 0, False, True), ("both", 0, True, True)):
            yield Case("Cumprod", {"x": ramp((3, 4), dtype, 1), "axis": _number(axis)},
                       {"exclusive": exclusive, "reverse": reverse},
                       f"{dtype.value} {label}".strip(), ulp=4, scale=16)
    for dtype in kernel_types("BiasAddGrad", "T"):
        yield Case("BiasAddGrad", {"out_backprop": ramp((2, 3, 4), dtype)}, label=dtype.value, ulp=2, scale=8)
    yield Case("BiasAddGrad", {"out_backprop": ramp((2, 3, 4, 2), DType.F32)}, {"data_format": "NCHW"}, "NCHW")
    yield Case("TopKV2", {"input": ramp((4, 23), DType.F32), "k": _number(3)}, {"sorted": False}, "without an order")
    for dtype in kernel_types("TopKV2", "T"):
        for label, x, k in (("", ramp((4, 23), dtype), 3), ("all", ramp((3, 5), dtype, 4), 5),
                            ("one", ramp((7,), dtype), 1), ("sorted", ramp((2, 3, 29), dtype, 4), 29)):
            for k_type, index in ((np.int32, "int32"), (np.int64, "int64")):
                yield Case("TopKV2", {"input": x, "k": _number(k, k_type)}, {"index_type": index},
                           f"{dtype.value} {label} {index}", gradient=index == "int32")
