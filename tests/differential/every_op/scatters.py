"""Cases of ops that combine rows by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.differential.every_op.case import Array, Case, Fixed, Variable, kernel_types, ramp
from tests.differential.every_op.values import grid
from tf_stitch.ir.dtypes import DType

_SEGMENTS = ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
_TO_TENSOR = ("TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin", "TensorScatterUpdate")
_TO_VARIABLE = ("ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul", "ResourceScatterMax",
                "ResourceScatterMin", "ResourceScatterUpdate")
_TO_VARIABLE_BY_SEVERAL = ("ResourceScatterNdAdd", "ResourceScatterNdSub", "ResourceScatterNdMax",
                           "ResourceScatterNdMin", "ResourceScatterNdUpdate")


def scatters() -> Iterator[Case]:
    for op in _SEGMENTS:
        for dtype in kernel_types(op, "T"):
            yield from _segments(op, dtype)
    yield from _bincounts()
    for dtype in kernel_types("ScatterNd", "T"):
        for label, indices, shape in _indices():
            updates = ramp((*indices.shape[:-1], *shape[indices.shape[-1]:]), dtype)
            asked = Fixed(np.array(shape, indices.dtype))
            yield Case("ScatterNd", {"indices": indices, "updates": updates, "shape": asked},
                       label=f"{dtype.value} {label}")
    for dtype in kernel_types("GatherNd", "Tparams"):
        for label, indices, shape in _indices():
            yield Case("GatherNd", {"params": ramp(shape, dtype), "indices": indices}, label=f"{dtype.value} {label}")
    yield from _from_variable()
    for op in _TO_TENSOR:
        for dtype in kernel_types(op, "T"):
            yield from _to_tensor(op, dtype)
    for op in _TO_VARIABLE:
        for dtype in kernel_types(op, "dtype"):
            yield from _to_variable(op, dtype)
    for op in _TO_VARIABLE_BY_SEVERAL:
        for dtype in kernel_types(op, "T"):
            for label, indices, shape in _indices():
                updates = ramp((*indices.shape[:-1], *shape[indices.shape[-1]:]), dtype, 5)
                yield Case(op, {"ref": Variable(ramp(shape, dtype)), "indices": indices, "updates": updates},
                           label=f"{dtype.value} {label}")


def _bincounts() -> Iterator[Case]:
    row, rows = [2, 0, 2, 7, 5, 0], [[2, 0, 2], [7, 1, 1]]
    for label, values, size in (("row", row, 5), ("rows", rows, 3), ("scalar", 2, 4), ("none", np.zeros(0), 2),
                                ("no size", row, 0)):
        for weighed in (False, True):
            for dtype in kernel_types("Bincount", "T"):
                weights = ramp(np.shape(values) if weighed else (0,), dtype)
                yield Case("Bincount", {"arr": np.array(values, np.int32), "size": Fixed(np.array(size, np.int32)),
                                        "weights": weights}, label=f"{dtype.value} {label} {weighed}")
                for index, binary in ((np.int32, True), (np.int32, False), (np.int64, False)):
                    yield Case("DenseBincount", {"input": np.array(values, index), "size": Fixed(np.array(size, index)),
                                                 "weights": weights}, {"binary_output": binary},
                               f"{dtype.value} {label} {weighed} {index.__name__} {binary}")


def _segments(op: str, dtype: DType) -> Iterator[Case]:
    def case(data: Array, ids: Any, segments: int, label: str, index: Any = np.int32) -> Case:
        asked = Fixed(np.array(segments, np.int32))
        return Case(op, {"data": data, "segment_ids": np.array(ids, index), "num_segments": asked},
                    label=f"{dtype.value} {label}")

    yield case(ramp((6, 4), dtype), [2, 0, 2, 2, -1, 0], 4, "rows")
    yield case(ramp((6,), dtype), [2, 0, -7, 2, 1, 0], 3, "elements", np.int64)
    yield case(ramp((2, 3, 2), dtype), [[1, 0, 1], [-2, 1, 1]], 2, "several axes")
    yield case(ramp((0, 3), dtype), np.zeros(0), 2, "none")
    if not op.endswith(("Sum", "Prod")):
        pairs = grid(dtype).reshape(-1)
        yield case(np.concatenate([pairs, pairs[::-1]]), [*range(pairs.size)] * 2, pairs.size, "grid")


def _indices() -> Iterator[tuple[str, Array, tuple[int, ...]]]:
    yield "elements", np.array([[4], [1], [4], [0]], np.int32), (5,)
    yield "rows", np.array([[[1], [2]], [[1], [1]]], np.int64), (3, 4)
    yield "of two axes", np.array([[1, 2], [0, 0], [1, 2]], np.int32), (2, 3, 2)
    yield "none", np.zeros((0, 1), np.int32), (3, 2)


def _to_tensor(op: str, dtype: DType) -> Iterator[Case]:
    for label, indices, shape in _indices():
        updates = ramp((*indices.shape[:-1], *shape[indices.shape[-1]:]), dtype, 5)
        yield Case(op, {"tensor": ramp(shape, dtype), "indices": indices, "updates": updates},
                   label=f"{dtype.value} {label}")
    if op.endswith(("Max", "Min")):
        x = grid(dtype).reshape(-1)
        every = np.arange(x.size, dtype=np.int32)
        yield Case(op, {"tensor": np.repeat(x, x.size), "indices": np.arange(x.size * x.size, dtype=np.int32)[:, None],
                        "updates": np.tile(x, x.size)}, label=f"{dtype.value} grid {every.size}")


def _from_variable() -> Iterator[Case]:
    for dtype in kernel_types("ResourceGather", "dtype"):
        for batch, shape, ids, index in (
                (0, (4, 3), [[3, 0], [1, 3]], np.int32), (0, (5,), [4], np.int64), (0, (4, 3), [], np.int32),
                (1, (2, 3, 2), [[2], [0]], np.int64)):  # fmt: skip
            yield Case("ResourceGather", {"resource": Variable(ramp(shape, dtype)), "indices": np.array(ids, index)},
                       {"batch_dims": batch, "dtype": dtype.value}, f"{dtype.value} {batch} {ids}")
        for label, indices, shape in _indices():
            yield Case("ResourceGatherNd", {"resource": Variable(ramp(shape, dtype)), "indices": indices},
                       {"dtype": dtype.value}, f"{dtype.value} {label}")


def _to_variable(op: str, dtype: DType) -> Iterator[Case]:
    for label, indices, shape in (("rows", np.array([[2, 0], [2, 2]], np.int32), (4, 3)),
                                  ("elements", np.array([4, 1, 4], np.int64), (5,)),
                                  ("none", np.zeros(0, np.int32), (4, 3))):
        inputs = {"resource": Variable(ramp(shape, dtype)), "indices": indices}
        updates = ramp((*indices.shape, *shape[1:]), dtype, 5)
        yield Case(op, {**inputs, "updates": updates}, label=f"{dtype.value} {label}")
        if label == "rows":
            yield Case(op, {**inputs, "updates": ramp((), dtype, 7)}, label=f"{dtype.value} one for all")
