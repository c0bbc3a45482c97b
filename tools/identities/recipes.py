"""What some ops need: for an attribute a list of values or a function that draws one, for an input a function that
draws it. What a recipe leaves out is drawn as for every other op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rng = np.random.Generator
Draw = Callable[[Rng], Any]


def small(*ranks: int, most: int = 6) -> Draw:
    """Floats of one of these ranks."""
    return lambda rng: rng.random(tuple(rng.integers(1, most + 1, int(rng.choice(ranks))))) + 0.1


def integers(shape: tuple[int, ...], end: int) -> Draw:
    """Integers from 0."""
    return lambda rng: rng.integers(0, end, shape)


def image(*channels: int) -> Draw:
    """A batch of images of up to 9 by 9."""
    return lambda rng: rng.random((*rng.integers(1, 10, 3), int(rng.choice(channels)))) + 0.1


def volume(channels: int) -> Draw:
    return lambda rng: rng.random((*rng.integers(1, 7, 4), channels)) + 0.1


def filters(rank: int, ins: int) -> Draw:
    return lambda rng: rng.random((*rng.integers(1, 4, rank), ins, int(rng.integers(1, 4))))


def one_of(*values: Any) -> Draw:
    return lambda rng: values[int(rng.integers(0, len(values)))]


def blocked(rng: Rng) -> NDArray[Any]:
    return rng.random((4 * int(rng.integers(1, 3)), *rng.integers(1, 7, 2), 2))


_FOUR = one_of([1, 1, 1, 1], [1, 2, 2, 1], [1, 1, 2, 1], [1, 2, 1, 1])
_ODD = one_of([1, 1, 1, 1], [1, 2, 2, 1], [1, 3, 2, 1])
_FIVE = one_of([1, 1, 1, 1, 1], [1, 2, 2, 2, 1], [1, 2, 1, 3, 1])
_FLAT: Draw = lambda rng: ["VALID", "SAME"][int(rng.integers(0, 2))]  # noqa: E731
_NHWC: Draw = lambda rng: "NHWC"  # noqa: E731
_CONV: dict[str, Any] = {"padding": _FLAT, "data_format": _NHWC, "strides": one_of([1, 1, 1, 1], [1, 2, 2, 1]),
                         "dilations": one_of([1, 1, 1, 1], [1, 2, 2, 1]), "explicit_paddings": one_of([])}
_POOL: dict[str, Any] = {"padding": _FLAT, "data_format": _NHWC, "ksize": _ODD, "strides": _FOUR,
                         "explicit_paddings": one_of([])}
_POOL3: dict[str, Any] = {"padding": _FLAT, "data_format": lambda rng: "NDHWC", "ksize": _FIVE, "strides": _FIVE}
_FFT: dict[str, Any] = {"fft_length": integers((1,), 8)}
_RESIZE: dict[str, Any] = {"images": image(1, 3), "size": lambda rng: rng.integers(1, 9, 2)}

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "SpaceToBatch": {"input": image(1, 2), "paddings": integers((2, 2), 4), "block_size": one_of(2, 3)},
    "SpaceToBatchND": {"input": image(1, 2), "block_shape": one_of([2, 2], [1, 2]), "paddings": integers((2, 2), 4)},
    "BatchToSpace": {"input": blocked, "crops": integers((2, 2), 2), "block_size": one_of(2)},
    "BatchToSpaceND": {"input": blocked, "block_shape": one_of([2, 2], [1, 2]), "crops": integers((2, 2), 2)},
    "Conv2D": {**_CONV, "input": image(2), "filter": filters(2, 2)},
    "DepthwiseConv2dNative": {**_CONV, "input": image(2), "filter": filters(2, 2)},
    "Conv3D": {"input": volume(2), "filter": filters(3, 2), "strides": _FIVE, "padding": _FLAT,
               "data_format": lambda rng: "NDHWC", "dilations": one_of([1] * 5)},
    "MaxPool": {**_POOL, "input": image(1, 2)}, "AvgPool": {**_POOL, "value": image(1, 2)},
    "MaxPoolWithArgmax": {**_POOL, "input": image(1, 2)},
    "MaxPoolV2": {"input": image(1, 2), "ksize": _ODD, "strides": _FOUR, "padding": _FLAT, "data_format": _NHWC},
    "MaxPool3D": {**_POOL3, "input": volume(2)}, "AvgPool3D": {**_POOL3, "input": volume(2)},
    "Dilation2D": {"input": image(2), "filter": lambda rng: rng.random((*rng.integers(1, 4, 2), 2)), "strides": _FOUR,
                   "rates": _FOUR, "padding": _FLAT},
    "ExtractImagePatches": {"images": image(1, 2), "ksizes": _ODD, "strides": _FOUR, "rates": _FOUR, "padding": _FLAT},
    "ResizeBilinear": _RESIZE, "ResizeNearestNeighbor": _RESIZE, "ResizeBicubic": _RESIZE, "ResizeArea": _RESIZE,
    "CropAndResize": {"image": image(1, 2), "boxes": lambda rng: rng.random((2, 4)), "box_ind": one_of([0, 0]),
                      "crop_size": lambda rng: rng.integers(1, 6, 2), "method": one_of("bilinear", "nearest")},
    "MirrorPad": {"input": image(1), "paddings": integers((4, 2), 2)},
    "MirrorPadGrad": {"input": lambda rng: rng.random(tuple(rng.integers(4, 8, 4))), "paddings": integers((4, 2), 2)},
    "Pad": {"input": small(2), "paddings": integers((2, 2), 4)},
    "PadV2": {"input": small(2), "paddings": integers((2, 2), 4), "constant_values": one_of(0)},
    "StridedSlice": {"input": small(2), "begin": integers((2,), 2), "end": lambda rng: rng.integers(1, 7, 2),
                     "strides": lambda rng: rng.integers(1, 3, 2)} | dict.fromkeys(
                         ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), one_of(0)),
    "Slice": {"input": small(2), "begin": integers((2,), 2), "size": lambda rng: rng.integers(-1, 3, 2)},
    "RFFT": _FFT, "IRFFT": _FFT,
    "RFFT2D": {"fft_length": integers((2,), 8)}, "IRFFT2D": {"fft_length": integers((2,), 8)},
    "DepthToSpace": {"input": image(4, 8), "block_size": one_of(2), "data_format": _NHWC},
    "SpaceToDepth": {"input": image(1, 2), "block_size": one_of(2), "data_format": _NHWC},
    "MatrixDiagV3": {"k": one_of(0, 1, -1, [-1, 1], [0, 2]), "num_rows": one_of(-1, 5), "num_cols": one_of(-1, 4)},
    "MatrixDiagPartV3": {"k": one_of(0, 1, -1, [-1, 1], [0, 2])},
    "MatrixDiagPartV2": {"k": one_of(0, 1, -1, [-1, 1], [0, 2])},
    "MatrixDiagV2": {"k": one_of(0, 1, -1, [-1, 1], [0, 2]), "num_rows": one_of(-1, 5), "num_cols": one_of(-1, 4)},
    "Einsum": {"equation": one_of("ab,bc->ac", "abc->cab", "ab->ba", "ab,ab->a", "...a,...b->...ab", "ii->i")},
    "Range": {"start": integers((), 3), "limit": integers((), 9), "delta": one_of(1, 2)},
    "Tile": {"input": small(2), "multiples": integers((2,), 4)},
    "Transpose": {"x": small(3), "perm": lambda rng: rng.permutation(3)},
    "Reshape": {"tensor": lambda rng: rng.random((2, 3, 4)),
                "shape": one_of([-1], [4, -1], [6, 4], [-1, 12], [3, 2, 4])},
    "Gather": {"params": small(1, 2, 3), "indices": integers((3, 2), 1)},
    "GatherNd": {"params": small(2, 3), "indices": integers((3, 2), 1)},
    "ScatterNd": {"indices": integers((3, 1), 2), "updates": lambda rng: rng.random((3, 4)),
                  "shape": one_of([5, 4], [2, 4])},
    "SplitV": {"value": lambda rng: rng.random((6, 5)), "size_splits": one_of([1, 5], [2, 4], [3, 3]), "split_dim":
               one_of(0), "num_split": one_of(2)},
    "DynamicStitch": {"indices": lambda rng: rng.integers(0, 5, 3), "data": lambda rng: rng.random((3, 2))},
    "Bincount": {"arr": integers((5,), 4), "size": integers((), 6), "weights": one_of([])},
    "UnsortedSegmentSum": {"data": lambda rng: rng.random((3, 4)), "segment_ids": integers((3,), 3), "num_segments":
                           one_of(3, 5)},
}
