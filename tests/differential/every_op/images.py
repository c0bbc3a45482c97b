"""Cases of ops that move blocks of pixels, and of images of another size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from tests.differential.every_op.case import Case, kernel_types, ramp
from tests.differential.every_op.shaped import ints, scalar
from tf_stitch.ir.dtypes import DType

Built: TypeAlias = Iterable[tuple[str, dict[str, Any], dict[str, Any]]]


def _space_to_batch(dtype: DType) -> Built:
    x = ramp((2, 4, 5, 2), dtype)
    return [("", {"input": x, "block_shape": ints(2, 3), "paddings": ints((0, 0), (1, 0))}, {}),
            ("one axis", {"input": x, "block_shape": ints(5, dtype=np.int64), "paddings": ints((1, 0))}, {}),
            ("with nothing behind", {"input": ramp((3, 6), dtype), "block_shape": ints(2),
                                     "paddings": ints((0, 2), dtype=np.int64)}, {})]


def _batch_to_space(dtype: DType) -> Built:
    x = ramp((12, 2, 3, 2), dtype)
    return [("", {"input": x, "block_shape": ints(2, 3), "crops": ints((0, 1), (2, 3))}, {}),
            ("one axis", {"input": x, "block_shape": ints(4, dtype=np.int64), "crops": ints((0, 0))}, {}),
            ("to nothing", {"input": x, "block_shape": ints(2), "crops": ints((1, 3))}, {})]


def _depth_to_space(dtype: DType) -> Built:
    return [(str(size), {"input": ramp((2, 3, 2, 2 * size * size), dtype)}, {"block_size": size}) for size in (2, 3)]


def _space_to_depth(dtype: DType) -> Built:
    return [(str(size), {"input": ramp((2, 2 * size, 3 * size, 2), dtype)}, {"block_size": size}) for size in (2, 3)]


def _roll(dtype: DType) -> Built:
    x = ramp((3, 5, 2), dtype)
    return [("", {"input": x, "shift": scalar(2), "axis": scalar(1)}, {}),
            ("two axes", {"input": x, "shift": ints(-1, 7, dtype=np.int64), "axis": ints(0, -2)}, {}),
            ("an axis twice", {"input": x, "shift": ints(1, 3), "axis": ints(1, 1)}, {}),
            ("round", {"input": x, "shift": ints(5), "axis": ints(1)}, {}),
            ("nothing", {"input": ramp((0, 2), dtype), "shift": ints(1), "axis": ints(0)}, {})]


_MOVED = {"SpaceToBatchND": _space_to_batch, "BatchToSpaceND": _batch_to_space, "DepthToSpace": _depth_to_space,
          "SpaceToDepth": _space_to_depth, "Roll": _roll}


def moved() -> Iterator[Case]:
    for op, build in _MOVED.items():
        for dtype in kernel_types(op, "T"):
            for label, inputs, attrs in build(dtype):
                yield Case(op, inputs, attrs, f"{dtype.value} {label}".strip())


RESIZED = ((8, 6), (2, 9), (4, 3), (1, 1), (7, 2))
_CENTERS: tuple[dict[str, Any], ...] = ({}, {"half_pixel_centers": True}, {"align_corners": True})


def _sizes(dtype: DType) -> tuple[tuple[int, int], ...]:
    """All for float32. Which pixels are read, and their shares, do not depend on their type: for the others one that is
    smaller one way and larger the other."""
    return RESIZED if dtype is DType.F32 else RESIZED[1:2]


def _resized(dtype: DType) -> Built:
    return [(f"{size} {' '.join(flags)}".strip(), {"images": ramp((2, 4, 3, 2), dtype), "size": ints(*size)}, flags)
            for size in _sizes(dtype) for flags in _CENTERS]


def _resized_gradient(dtype: DType, of: DType) -> Built:
    """Args: of: the type of images whose gradient it is."""
    return [(f"{size} {' '.join(flags)}".strip(), {"grads": ramp((2, *size, 2), dtype), "size": ints(4, 3)}, flags)
            for size in _sizes(of) for flags in _CENTERS]


def resized() -> Iterator[Case]:
    """The nearest pixels; and between pixels, a float of any."""
    for dtype in kernel_types("ResizeNearestNeighbor", "T"):
        for label, inputs, attrs in _resized(dtype):
            yield Case("ResizeNearestNeighbor", inputs, attrs, f"{dtype.value} {label}")
    for dtype in kernel_types("ResizeNearestNeighborGrad", "T"):
        for label, inputs, attrs in _resized_gradient(dtype, dtype):
            yield Case("ResizeNearestNeighborGrad", inputs, attrs, f"{dtype.value} {label}", ulp=1, scale=8)
    for dtype in kernel_types("ResizeBilinear", "T"):
        for label, inputs, attrs in _resized(dtype):
            yield Case("ResizeBilinear", inputs, attrs, f"{dtype.value} {label}", ulp=4, scale=6)
    for dtype in kernel_types("ResizeBilinearGrad", "T"):
        for label, inputs, attrs in _resized_gradient(DType.F32, dtype):
            images = {"grads": inputs["grads"], "original_image": ramp((2, 4, 3, 2), dtype)}
            yield Case("ResizeBilinearGrad", images, attrs, f"{dtype.value} {label}", ulp=16, scale=32)
