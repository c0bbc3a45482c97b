"""Cases of ops that move, look up or make elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tests.differential.every_op.case import Case, Fixed, kernel_types, ramp
from tests.differential.every_op.values import grid
from tf_stitch.ir.dtypes import DType


def ints(*values: Any, dtype: Any = np.int32) -> Fixed:
    return Fixed(np.array(values, dtype))


def scalar(value: float, dtype: Any = np.int32) -> Fixed:
    return Fixed(np.array(value, dtype))


def movement() -> Iterator[Case]:
    for op, build in _MOVEMENT.items():
        attr = "Tparams" if op.startswith("Gather") else "T"
        for dtype in kernel_types(op, attr):
            for label, inputs, attrs in build(dtype):
                yield Case(op, inputs, attrs, f"{dtype.value} {label}".strip())


_Built = Iterable[tuple[str, dict[str, Any], dict[str, Any]]]


def _axes(dtype: DType) -> _Built:
    x = ramp((2, 3, 4), dtype)
    return [("", {"x": x, "perm": ints(2, 0, 1)}, {}), ("same", {"x": x, "perm": ints(0, 1, 2, dtype=np.int64)}, {}),
            ("empty", {"x": ramp((0, 3), dtype), "perm": ints(1, 0)}, {})]


def _concat(dtype: DType) -> _Built:
    parts = [ramp((2, n, 3), dtype, n) for n in (1, 0, 4)]
    return [("", {"values": parts, "axis": scalar(1)}, {}),
            ("from the end", {"values": parts, "axis": scalar(-2)}, {}),
            ("alone empty", {"values": [parts[1], parts[1]], "axis": scalar(1)}, {})]


def _concat_v1(dtype: DType) -> _Built:
    return [("", {"concat_dim": scalar(1), "values": [ramp((2, n), dtype, n) for n in (1, 4)]}, {})]


def _pack(dtype: DType) -> _Built:
    parts = [ramp((2, 3), dtype, i) for i in range(3)]
    return [("first", {"values": parts}, {"axis": 0}), ("last", {"values": parts}, {"axis": -1}),
            ("scalars", {"values": [ramp((), dtype, i) for i in range(2)]}, {})]


def _unpack(dtype: DType) -> _Built:
    x = ramp((2, 3, 2), dtype)
    return [(str(axis), {"value": x}, {"num": x.shape[axis], "axis": axis}) for axis in (0, 1, -1)]


def _split(dtype: DType) -> _Built:
    x = ramp((4, 6), dtype)
    return [("", {"split_dim": scalar(1), "value": x}, {"num_split": 3}),
            ("one", {"split_dim": scalar(-2), "value": x}, {"num_split": 1})]


def _split_v(dtype: DType) -> _Built:
    x = ramp((4, 6), dtype)
    return [("", {"value": x, "size_splits": ints(1, 5), "split_dim": scalar(1)}, {"num_split": 2}),
            ("the rest", {"value": x, "size_splits": ints(1, -1, 0, dtype=np.int64), "split_dim": scalar(-2)},
             {"num_split": 3})]


def _pad(dtype: DType) -> _Built:
    x = ramp((2, 3), dtype)
    return [("", {"input": x, "paddings": ints((1, 2), (0, 3))}, {}),
            ("none", {"input": x, "paddings": ints((0, 0), (0, 0), dtype=np.int64)}, {})]


def _pad_v2(dtype: DType) -> _Built:
    x = ramp((2, 3), dtype)
    return [(str(i), {"input": x, "paddings": ints((1, 2), (0, 3)), "constant_values": value}, {})
            for i, value in enumerate(grid(dtype)[-5:])]


def _mirror_pad(dtype: DType) -> _Built:
    return [(mode, {"input": ramp((2, 3, 4), dtype), "paddings": ints((0, 0), (2, 1), (0, 3))}, {"mode": mode})
            for mode in ("REFLECT", "SYMMETRIC")]


def _mirror_pad_grad(dtype: DType) -> _Built:
    return [(mode, {"input": ramp((2, 6, 7), dtype), "paddings": ints((0, 0), (2, 1), (0, 3))}, {"mode": mode})
            for mode in ("REFLECT", "SYMMETRIC")]


def _tile(dtype: DType) -> _Built:
    x = ramp((2, 1, 3), dtype)
    return [("", {"input": x, "multiples": ints(2, 3, 1)}, {}),
            ("inner", {"input": x, "multiples": ints(1, 1, 4, dtype=np.int64)}, {}),
            ("to nothing", {"input": x, "multiples": ints(1, 0, 2)}, {})]


def _slice(dtype: DType) -> _Built:
    x = ramp((4, 5), dtype)
    return [("", {"input": x, "begin": ints(1, 0), "size": ints(2, 3)}, {}),
            ("the rest", {"input": x, "begin": ints(1, 5, dtype=np.int64), "size": ints(-1, 0, dtype=np.int64)}, {}),
            ("fed", {"input": x, "begin": np.array([1, 2], np.int32), "size": ints(2, 3)}, {}),
            ("fed, to the end", {"input": x, "begin": np.array([0, 5], np.int64),
                                 "size": ints(4, 0, dtype=np.int64)}, {})]


def _dynamic_slice(dtype: DType) -> _Built:
    x = ramp((4, 5), dtype)
    for begin in ((1, 2), (0, 4), (-3, 9), (2 ** 31 - 1, -2 ** 31)):
        yield str(begin), {"input": x, "start_indices": np.array(begin, np.int32), "size_indices": ints(4, 2)}, {}
    yield "int64", {"input": x, "start_indices": np.array([2 ** 63 - 1, 1]),
                    "size_indices": ints(2, 0, dtype=np.int64)}, {}


def _dynamic_update_slice(dtype: DType) -> _Built:
    x = ramp((4, 5), dtype)
    for shape, begin in (((4, 1), (7, 2)), ((2, 3), (1, 1)), ((2, 3), (-3, 9)), ((1, 1), (2 ** 31 - 1, -2 ** 31)),
                         ((4, 5), (1, 1)), ((0, 5), (1, 0))):
        yield f"{shape} at {begin}", {"input": x, "update": ramp(shape, dtype, 3),
                                      "indices": np.array(begin, np.int32)}, {}
    yield "int64", {"input": x, "update": ramp((3, 5), dtype, 3), "indices": np.array([2 ** 63 - 1, 0])}, {}


_SLICES: dict[str, tuple[Any, Any, Any, dict[str, int]]] = {
    "": ((1, 0), (3, 4), (1, 1), {}), "strides": ((0, 1), (4, 5), (2, 3), {}),
    "backwards": ((-1, 3), (-5, 0), (-1, -2), {}), "beyond": ((-9, 2), (9, 9), (1, 1), {}),
    "masks": ((1, 1), (2, 2), (1, 2), {"begin_mask": 1, "end_mask": 2}),
    "shrink": ((2, 0), (3, 4), (1, 1), {"shrink_axis_mask": 1}),
    "shrink from the end": ((-1, -2), (0, 0), (1, 1), {"shrink_axis_mask": 3}),
    "new axis": ((0, 0, 1), (0, 4, 3), (1, 1, 1), {"new_axis_mask": 1}),
    "ellipsis": ((0, 1), (0, 3), (1, 1), {"ellipsis_mask": 1}), "nothing": ((3, 0), (1, 5), (1, 1), {})}


def _strided_slice(dtype: DType) -> _Built:
    return [(label, {"input": ramp((4, 5), dtype), "begin": ints(*b), "end": ints(*e), "strides": ints(*s)}, masks)
            for label, (b, e, s, masks) in _SLICES.items()] + [
        (f"fed {at}", {"input": ramp((4, 5), dtype), "begin": np.array(at, np.int32), "end": np.zeros(2, np.int32),
                       "strides": ints(1, 1)}, {"shrink_axis_mask": 3}) for at in ((2, -1), (-4, 4))]


def _strided_slice_grad(dtype: DType) -> _Built:
    found = []
    for label, (b, e, s, masks) in _SLICES.items():
        if label == "backwards":
            continue  # stays TensorFlow's
        shape = tf.strided_slice(np.zeros((4, 5)), b, e, s, **masks).shape.as_list()
        index = np.int64 if masks else np.int32
        bounds = {"begin": b, "end": e, "strides": s, "shape": (4, 5)}
        found.append((label, {**{name: ints(*values, dtype=index) for name, values in bounds.items()},
                              "dy": ramp(tuple(shape), dtype, 1)}, masks))
    return found


def _gather(dtype: DType) -> _Built:
    return [("", {"params": ramp((5, 3), dtype), "indices": np.array([[0, 2], [1, 1]], np.int32)}, {}),
            ("of a vector", {"params": ramp((5,), dtype), "indices": np.array(3, np.int64)}, {}),
            ("of nothing", {"params": ramp((5, 2), dtype), "indices": np.zeros((0,), np.int32)}, {})]


def _gather_v2(dtype: DType) -> _Built:
    return [(f"{label} {axis}".strip(), {**inputs, "axis": scalar(axis)}, {}) for label, inputs, _ in _gather(dtype)
            for axis in ((0, -1) if label == "" else (0,))] + _gather_in_batches(dtype)


def _gather_in_batches(dtype: DType) -> list[Any]:
    x, at = ramp((2, 3, 4), dtype), np.array([[2, 0], [1, 2]], np.int32)
    deep = np.array([[[3, 0], [1, 1], [2, 3]], [[0, 0], [3, 2], [1, 0]]], np.int64)
    return [("batches", {"params": x, "indices": at, "axis": scalar(1)}, {"batch_dims": 1}),
            ("batches, a later axis", {"params": x, "indices": at, "axis": scalar(2)}, {"batch_dims": 1}),
            ("batches of two axes", {"params": x, "indices": deep, "axis": scalar(2)}, {"batch_dims": 2}),
            ("batches from the end", {"params": x, "indices": at, "axis": scalar(-2)}, {"batch_dims": -1})]


def _band(dtype: DType) -> _Built:
    return [(f"{low} {high}", {"input": ramp((2, 4, 3), dtype, 1), "num_lower": scalar(low, np.int64),
                               "num_upper": scalar(high, np.int64)}, {})
            for low, high in ((0, 0), (-1, 0), (1, -1), (4, 3), (2, 1), (-1, -1))]


def _one_hot(dtype: DType) -> _Built:
    on, off = grid(dtype)[-1], grid(dtype)[1]
    indices = np.array([[0, 3, -1], [4, 7, 2]])
    found = []
    for index in (np.int32, np.int64):
        for axis in (-1, 0, 1):
            found.append((f"{index.__name__} {axis}", {"indices": indices.astype(index), "depth": scalar(4),
                                                       "on_value": on, "off_value": off}, {"axis": axis}))
    huge = np.array([0, 1 << 32, -(1 << 63)], np.int64)
    return [*found, ("huge", {"indices": huge, "depth": scalar(3), "on_value": on, "off_value": off}, {}),
            ("no depth", {"indices": indices, "depth": scalar(0), "on_value": on, "off_value": off}, {})]


def _reverse_v2(dtype: DType) -> _Built:
    x = ramp((3, 4, 2), dtype)
    return [("", {"tensor": x, "axis": ints(1)}, {}), ("two", {"tensor": x, "axis": ints(-1, 0, dtype=np.int64)}, {}),
            ("none", {"tensor": x, "axis": Fixed(np.zeros(0, np.int32))}, {})]


def _reverse(dtype: DType) -> _Built:
    return [("", {"tensor": ramp((3, 4), dtype), "dims": Fixed(np.array([True, False]))}, {})]


def _reverse_sequence(dtype: DType) -> _Built:
    x = ramp((3, 4, 2), dtype)
    return [("", {"input": x, "seq_lengths": np.array([0, 2, 4], np.int64)}, {"seq_dim": 1, "batch_dim": 0}),
            ("batch behind", {"input": x, "seq_lengths": np.array([3, 1, 0, 2], np.int32)},
             {"seq_dim": 0, "batch_dim": 1})]


def _reshape(dtype: DType) -> _Built:
    x = ramp((2, 6), dtype)
    return [("", {"tensor": x, "shape": ints(3, -1)}, {}),
            ("64", {"tensor": x, "shape": ints(12, 1, dtype=np.int64)}, {})]


def _expand(dtype: DType) -> _Built:
    return [(str(axis), {"input": ramp((2, 3), dtype), "dim": scalar(axis)}, {}) for axis in (0, 2, -1, -3)]


def _squeeze(dtype: DType) -> _Built:
    x = ramp((1, 3, 1), dtype)
    return [("", {"input": x}, {}), ("one", {"input": x}, {"squeeze_dims": [-1]})]


def _broadcast_to(dtype: DType) -> _Built:
    return [("", {"input": ramp((3, 1), dtype), "shape": ints(2, 3, 4)}, {}),
            ("nothing", {"input": ramp((1,), dtype), "shape": ints(0, 2, dtype=np.int64)}, {})]


def _fill(dtype: DType) -> _Built:
    return [(str(i), {"dims": ints(2, 3, dtype=(np.int32, np.int64)[i % 2]), "value": value}, {})
            for i, value in enumerate(grid(dtype)[-4:])]


def _size(dtype: DType) -> _Built:
    return [(out, {"input": ramp((2, size), dtype)}, {"out_type": out}) for out, size in (("int32", 3), ("int64", 0))]


def _ensure(dtype: DType) -> _Built:
    return [("", {"input": ramp((2, 3), dtype)}, {"shape": [None, 3]})]


def _diag_part(dtype: DType) -> _Built:
    return [(label, {"input": ramp(shape, dtype)}, {})
            for label, shape in (("square", (2, 3, 3)), ("wide", (3, 5)), ("tall", (2, 1, 4, 2)))]


def _diag_part_v2(dtype: DType) -> _Built:
    other = {"k": scalar(0), "padding_value": np.asarray(7).astype(dtype.numpy)}
    return [(label, {**inputs, **other}, {}) for label, inputs, _ in _diag_part(dtype)]


def _diag(dtype: DType) -> _Built:
    return [(label, {"diagonal": ramp(shape, dtype)}, {}) for label, shape in (("", (4,)), ("batch", (2, 1, 3)))]


def _diag_v2(dtype: DType) -> _Built:
    other = {"k": ints(0, 0), "num_rows": scalar(-1), "num_cols": scalar(-1),
             "padding_value": np.asarray(7).astype(dtype.numpy)}
    return [(label, {**inputs, **other}, {}) for label, inputs, _ in _diag(dtype)]


def _set_diag(dtype: DType) -> _Built:
    return [(label, {"input": ramp(shape, dtype), "diagonal": ramp((*shape[:-2], min(shape[-2:])), dtype, 5)}, {})
            for label, shape in (("square", (2, 3, 3)), ("wide", (3, 5)), ("tall", (2, 1, 4, 2)))]


def _set_diag_v2(dtype: DType) -> _Built:
    return [(label, {**inputs, "k": scalar(0)}, {}) for label, inputs, _ in _set_diag(dtype)]


_MOVEMENT: dict[str, Any] = {
    "MatrixDiagPart": _diag_part, "MatrixDiagPartV2": _diag_part_v2, "MatrixDiagPartV3": _diag_part_v2,
    "MatrixDiag": _diag, "MatrixDiagV2": _diag_v2, "MatrixDiagV3": _diag_v2,
    "MatrixSetDiag": _set_diag, "MatrixSetDiagV2": _set_diag_v2, "MatrixSetDiagV3": _set_diag_v2,
    "Transpose": _axes, "ConjugateTranspose": _axes, "ConcatV2": _concat, "Concat": _concat_v1, "Pack": _pack,
    "Unpack": _unpack, "Split": _split, "SplitV": _split_v, "Pad": _pad, "PadV2": _pad_v2,
    "MirrorPad": _mirror_pad, "MirrorPadGrad": _mirror_pad_grad, "Tile": _tile,
    "Slice": _slice, "XlaDynamicSlice": _dynamic_slice, "XlaDynamicUpdateSlice": _dynamic_update_slice,
    "StridedSlice": _strided_slice, "StridedSliceGrad": _strided_slice_grad, "Gather": _gather,
    "GatherV2": _gather_v2, "MatrixBandPart": _band, "OneHot": _one_hot, "ReverseV2": _reverse_v2, "Reverse": _reverse,
    "ReverseSequence": _reverse_sequence, "Reshape": _reshape, "ExpandDims": _expand, "Squeeze": _squeeze,
    "BroadcastTo": _broadcast_to, "Fill": _fill, "Size": _size, "EnsureShape": _ensure}


def made() -> Iterator[Case]:
    """Constants, and what is made of numbers alone."""
    for dtype in kernel_types("Const", "dtype"):
        x = grid(dtype)
        for label, array in (("grid", x), ("splat", np.full((3, 2), x[-1])), ("scalar", x[1])):
            yield Case("Const", {}, {"value": tf.make_tensor_proto(array, dtype.value), "dtype": dtype.value},
                       f"{dtype.value} {label}")
    for dtype in kernel_types("Range", "Tidx"):
        if dtype is DType.F16:
            continue  # no shape inference
        for numbers in ((0, 5, 1), (-3, 8, 2), (5, -5, -3), (3, 3, 1), *([(0.1, 3, 0.3)] if dtype.is_float else [])):
            inputs = {n: scalar(v, dtype.numpy) for n, v in zip(("start", "limit", "delta"), numbers, strict=True)}
            yield Case("Range", inputs, label=f"{dtype.value} {numbers}", ulp=1)
    for dtype in kernel_types("LinSpace", "T"):
        for start, stop, count in ((0, 1, 11), (-1, 1, 4), (3, 3, 2), (5, -5, 1)):
            yield Case("LinSpace", {"start": scalar(start, dtype.numpy), "stop": scalar(stop, dtype.numpy),
                                    "num": scalar(count)}, label=f"{dtype.value} {start} {stop} {count}", ulp=1)
