"""Graphs that TensorFlow's CPU kernels refuse when they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.differential.every_op.case import Case, Fixed, Variable
from tests.differential.every_op.elementwise import DIVISIONS


def _f(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def _i(*values: Any) -> Any:
    return np.array(values, np.int32)


def _fixed(values: Any, dtype: Any = np.int32) -> Fixed:
    return Fixed(np.array(values, dtype))


_ON_OFF = {"on_value": np.float32(1), "off_value": np.float32(0)}


def errors() -> Iterator[Case]:
    for op in DIVISIONS:
        for dtype in (np.int32, np.int64):
            x = np.array([1, 2, 3], dtype)
            yield Case(op, {"x": x, "y": _fixed(0, dtype)}, label=f"{dtype.__name__} by 0")
            yield Case(op, {"x": x, "y": np.array([1, 0, 2], dtype)}, label=f"{dtype.__name__} by a fed 0")
    for exponent in (_fixed(-1), np.array(-2, np.int32)):
        yield Case("Pow", {"x": _i(1, 2), "y": exponent}, label="negative")
    for index in ([5], [-1], [0, 7]):
        yield Case("Gather", {"params": _f(5, 2), "indices": _i(*index)}, label=f"{index}")
        yield Case("GatherV2", {"params": _f(2, 5), "indices": np.array(index, np.int64), "axis": _fixed(1)},
                   label=f"{index}")
    yield from _scatters()
    for begin in ([0, 3], [-1, 0], [2, 0]):
        yield Case("Slice", {"input": _f(2, 6), "begin": _i(*begin), "size": _fixed([1, 4])}, label=f"fed {begin}")
    for index in ([2], [-3]):
        yield Case("StridedSlice", {"input": _f(2, 6), "begin": _i(*index), "end": _i(0), "strides": _fixed([1])},
                   {"shrink_axis_mask": 1}, f"fed {index}")
    for label in (-1, 3, 1 << 20):
        yield Case("SparseSoftmaxCrossEntropyWithLogits", {"features": _f(2, 3), "labels": _i(0, label)},
                   label=f"{label}")
    for low, high in ((5, 0), (0, 9), (-1, 9), (5, -1)):
        yield Case("MatrixBandPart", {"input": _f(3, 3), "num_lower": _fixed(low), "num_upper": _fixed(high)},
                   label=f"{low} {high}")
    for lengths in ([1, 5], [-1, 2]):
        yield Case("ReverseSequence", {"input": _f(2, 4), "seq_lengths": _i(*lengths)}, {"seq_dim": 1, "batch_dim": 0},
                   f"{lengths}")
    yield Case("ReverseSequence", {"input": _f(2, 4), "seq_lengths": _i(1, 2, 3)}, {"seq_dim": 1, "batch_dim": 0},
               "wrong batch", unknown="all")
    for sizes in ([1, 2], [5, 5], [7, -1]):
        yield Case("SplitV", {"value": _f(2, 6), "size_splits": _fixed(sizes), "split_dim": _fixed(1)},
                   {"num_split": 2}, f"{sizes}", unknown="all")
    for axis in (2, -3):
        yield Case("Cumsum", {"x": _f(2, 6), "axis": _fixed(axis)}, label=f"axis {axis}")
    yield Case("OneHot", {"indices": _i(1, 0), **_ON_OFF, "depth": _fixed(3)}, {"axis": 2}, "axis 2")
    for axes in ([0, 0], [0, -2]):
        yield Case("Sum", {"input": _f(2, 6), "reduction_indices": _fixed(axes)}, label=f"{axes}")
    yield Case("Tile", {"input": _f(2, 6), "multiples": _fixed([-1, 2])}, label="negative")
    bounds = {"begin": _fixed([1]), "end": _fixed([3]), "strides": _fixed([1])}
    yield Case("StridedSliceGrad", {"shape": _fixed([4]), **bounds, "dy": _f(3)}, label="wrong dy")
    yield Case("Transpose", {"x": _f(2, 6), "perm": _fixed([0, 0])}, label="twice")
    yield from _convolutions()
    for axis, shape in ((1, (2, 0)), (0, (0, 2))):
        yield Case("ArgMax", {"input": _f(*shape), "dimension": _fixed(axis)}, label=f"of nothing {axis}")
        yield Case("ArgMin", {"input": _f(*shape), "dimension": _fixed(axis)}, label=f"of nothing {axis}",
                   unknown="all")
    for low, high in ((_f(1), _f(1)), (_f(2), np.float32(1)), (_f(3), _f(1))):
        yield Case("ClipByValue", {"t": _f(3), "clip_value_min": low, "clip_value_max": high},
                   label=f"{low.shape} {high.shape}")
    yield Case("ClipByValue", {"t": _f(1), "clip_value_min": _f(3), "clip_value_max": _f(3)}, label="wider")
    yield Case("TanhGrad", {"y": _f(2), "dy": _f(1)}, label="of one")
    yield Case("SparseSoftmaxCrossEntropyWithLogits", {"features": _f(2, 0), "labels": _i(0, 0)}, label="of none")
    yield from _by_sizes()
    yield from _variables()


def _scatters() -> Iterator[Case]:
    for values in ([0, -1, 2], [[0, 1], [-3, 1]]):
        yield Case("DenseBincount", {"input": _i(*values), "size": _fixed(4), "weights": _f(0)}, label=f"{values}")
    yield Case("Bincount", {"arr": _i(0, -1, 2), "size": _fixed(4), "weights": _f(3)}, label="negative")
    yield Case("DenseBincount", {"input": _i(0, 1, 2), "size": _fixed(4), "weights": _f(2)}, label="too few weights")
    for op in ("UnsortedSegmentSum", "UnsortedSegmentMax"):
        for label, ids, segments in (("behind", (0, 2, -1), 2), ("no segment", (0, 0, 0), 0), ("too few", (0, 0), 2)):
            yield Case(op, {"data": _f(3, 2), "segment_ids": _i(*ids), "num_segments": _fixed(segments)}, label=label,
                       unknown="all")
    for index in ([[0, 3], [0, 0]], [[-1, 0], [1, 0]], [[2, 0], [0, 0]], [[0, -1], [0, 0]]):
        at = {"indices": _i(*index)}
        yield Case("ScatterNd", {**at, "updates": _f(2), "shape": _fixed([2, 3])}, label=f"{index}")
        yield Case("TensorScatterUpdate", {"tensor": _f(2, 3), **at, "updates": _f(2)}, label=f"{index}")
        yield Case("GatherNd", {"params": _f(2, 3), **at}, label=f"{index}")
        yield Case("ResourceScatterNdAdd", {"ref": Variable(_f(2, 3)), **at, "updates": _f(2)}, label=f"{index}")
        yield Case("ResourceGatherNd", {"resource": Variable(_f(2, 3)), **at}, {"dtype": np.float32}, f"{index}")
    for index in ([[3]], [[-1]]):
        at = {"indices": _i(*index)}
        yield Case("TensorScatterAdd", {"tensor": _f(3, 2), **at, "updates": _f(1, 2)}, label=f"{index}")
        for op in ("ResourceScatterAdd", "ResourceScatterUpdate"):
            yield Case(op, {"resource": Variable(_f(3, 2)), **at, "updates": _f(1, 1, 2)}, label=f"{index}")
        yield Case("GatherV2", {"params": _f(1, 3, 2), **at, "axis": _fixed(1)}, {"batch_dims": 1}, f"{index}, a batch")
        for shape, batch in (((3, 2), 0), ((1, 3, 2), 1)):
            yield Case("ResourceGather", {"resource": Variable(_f(*shape)), **at},
                       {"batch_dims": batch, "dtype": np.float32}, f"{index}, {batch} batches")
    yield Case("TensorScatterAdd", {"tensor": _f(3, 2), "indices": _i([1]), "updates": _f(1, 3)}, label="wider",
               unknown="all")


def _by_sizes() -> Iterator[Case]:
    """What the graph's shapes would tell, if it had them."""
    matrix, vector, one = _f(2, 6), _f(2), _f(1)
    for op, inputs, attrs in (
            ("Slice", {"input": matrix, "begin": _fixed([0, 3]), "size": _fixed([1, 4])}, {}),
            ("Slice", {"input": matrix, "begin": _fixed([0, 7]), "size": _fixed([1, -1])}, {}),
            ("StridedSlice", {"input": matrix, "begin": _fixed([2]), "end": _fixed([3]), "strides": _fixed([1])},
             {"shrink_axis_mask": 1}),
            ("StridedSlice", {"input": matrix, "begin": _fixed([-3]), "end": _fixed([3]), "strides": _fixed([1])},
             {"shrink_axis_mask": 1}),
            ("MatrixBandPart", {"input": _f(3, 3), "num_lower": _fixed(4), "num_upper": _fixed(0)}, {}),
            ("TopKV2", {"input": _f(5), "k": _fixed(6)}, {}),
            ("Reshape", {"tensor": matrix, "shape": _fixed([5, -1])}, {}),
            ("Reshape", {"tensor": matrix, "shape": _fixed([3, 3])}, {}),
            ("Squeeze", {"input": matrix}, {"squeeze_dims": [0]}),
            ("BroadcastTo", {"input": matrix, "shape": _fixed([3, 6])}, {}),
            ("EnsureShape", {"input": matrix}, {"shape": [2, 5]}),
            ("ConcatV2", {"values": [matrix, _f(3, 6)], "axis": _fixed(1)}, {}),
            ("Pack", {"values": [vector, _f(3)]}, {}), ("Unpack", {"value": matrix}, {"num": 3}),
            ("Split", {"value": matrix, "split_dim": _fixed(1)}, {"num_split": 4}),
            ("Add", {"x": vector, "y": _f(3)}, {}), ("Equal", {"x": vector, "y": _f(3)}, {}),
            ("AddN", {"inputs": [vector, one]}, {}), ("ReluGrad", {"gradients": vector, "features": one}, {}),
            ("Select", {"condition": np.array([True]), "t": vector, "e": vector}, {}),
            ("Select", {"condition": np.array([True, False]), "t": vector, "e": one}, {}),
            ("SelectV2", {"condition": np.array([True, False, True]), "t": vector, "e": one}, {}),
            ("BiasAdd", {"value": _f(2, 3), "bias": one}, {}), ("MatMul", {"a": _f(2, 3), "b": _f(4, 2)}, {}),
            ("BatchMatMulV2", {"x": _f(2, 2, 3), "y": _f(3, 3, 2)}, {}),
            ("BatchMatMul", {"x": _f(1, 2, 3), "y": _f(3, 3, 2)}, {}),
            ("Einsum", {"inputs": [_f(2, 3), _f(4, 2)]}, {"equation": "ij,jk->ik"}),
            ("SoftmaxCrossEntropyWithLogits", {"features": _f(2, 3), "labels": _f(2, 4)}, {}),
            ("SparseSoftmaxCrossEntropyWithLogits", {"features": _f(2, 3), "labels": _i(1)}, {}),
            ("SparseSoftmaxCrossEntropyWithLogits", {"features": _f(2, 0), "labels": _i(0, 0)}, {}),
            ("FusedBatchNormV3", {"x": _f(1, 1, 1, 3), "scale": one, "offset": _f(3), "mean": _f(3),
                                  "variance": _f(3)}, {"is_training": False})):
        yield Case(op, inputs, attrs, " ".join(map(str, attrs.values())), unknown="all")


def _variables() -> Iterator[Case]:
    for op in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
        attrs = {"validate_shape": True} if op == "AssignVariableOp" else {}
        for size in (1, 3):
            for unknown in ("all", "fed"):
                yield Case(op, {"resource": Variable(_f(2)), "value": _f(size)}, attrs, f"{size} {unknown}",
                           unknown=unknown)
    for unknown in ("all", "fed"):
        yield Case("ResourceApplyGradientDescent", {"var": Variable(_f(2)), "alpha": np.float32(1), "delta": _f(1)},
                   label=unknown, unknown=unknown)
        yield Case("ResourceApplyAdagrad", {"var": Variable(_f(2)), "accum": Variable(_f(2)), "lr": np.float32(1),
                                            "grad": _f(1)}, label=unknown, unknown=unknown)
    yield Case("ResourceApplyMomentum", {"var": Variable(_f(2)), "accum": Variable(_f(1)), "lr": np.float32(1),
                                         "grad": _f(2), "momentum": np.float32(1)}, label="slot", unknown="all")


def _convolutions() -> Iterator[Case]:
    valid = {"strides": [1, 1, 1, 1, 1], "padding": "VALID"}
    x, w, y = _f(2, 3, 4, 5, 3), _f(2, 2, 2, 3, 4), _f(2, 2, 3, 4, 4)
    yield Case("Conv3D", {"input": x, "filter": _f(2, 2, 2, 2, 4)}, valid, "channels", unknown="all")
    yield Case("Conv3D", {"input": x, "filter": w}, valid | {"strides": [2, 1, 1, 1, 1]}, "strides of the batch")
    for size, label in (((2, 3, 4, 6, 3), "size"), ((2, 3, 4, 5, 5), "channels"), ((3, 3, 4, 5, 3), "batch")):
        yield Case("Conv3DBackpropInputV2", {"input_sizes": _fixed(size), "filter": w, "out_backprop": y}, valid, label,
                   unknown="all")
    for size, label in (((2, 2, 1, 3, 4), "size"), ((2, 2, 2, 2, 4), "channels"), ((2, 2, 2, 3, 5), "filters")):
        yield Case("Conv3DBackpropFilterV2", {"input": x, "filter_sizes": _fixed(size), "out_backprop": y}, valid,
                   label, unknown="all")
    yield Case("Conv3DBackpropFilterV2", {"input": _f(3, 3, 4, 5, 3), "filter_sizes": _fixed(w.shape),
                                          "out_backprop": y}, valid, "batch", unknown="all")
