"""What ops need whose inputs' sizes depend on each other, as a gradient's on its image's: for each op a function that
draws all of them, and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

Rng = np.random.Generator
Drawn = dict[str, Any]
Joint = Callable[[Rng], Drawn]


def _floats(rng: Rng, *shape: int) -> NDArray[Any]:
    return rng.random(shape) + 0.1


def _sizes(rng: Rng, count: int, least: int = 1, most: int = 6) -> list[int]:
    return [int(size) for size in rng.integers(least, most + 1, count)]


def _windows(rng: Rng, dims: int) -> tuple[list[int], list[int], list[int], list[int], str]:
    """Sizes of an image, of a window, its strides, sizes of the result, and the padding."""
    image, window, strides = _sizes(rng, dims, 3, 8), _sizes(rng, dims, 1, 3), _sizes(rng, dims, 1, 2)
    if dims == 2:
        strides = strides[:1] * 2
    padding = ["VALID", "SAME"][int(rng.integers(0, 2))]
    result = [-(-size // step) if padding == "SAME" else (size - width) // step + 1
              for size, width, step in zip(image, window, strides, strict=True)]
    return image, window, strides, result, padding


def _of_windows(dims: int, padding: str, window: Sequence[int], strides: Sequence[int]) -> Drawn:
    """Attributes; ops have some of them."""
    return {"padding": padding, "data_format": "NHWC" if dims == 2 else "NDHWC", "strides": [1, *strides, 1],
            "ksize": [1, *window, 1], "dilations": [1] * (dims + 2), "rates": [1] * (dims + 2),
            "explicit_paddings": [], "T": tf.float32}


def _convolution(dims: int, depthwise: bool = False) -> Joint:
    """Input, filter and the result's gradient, under the names of all ops."""
    def draw(rng: Rng) -> Drawn:
        image, window, strides, result, padding = _windows(rng, dims)
        batch, outs = _sizes(rng, 2, 1, 3)
        x, f = (batch, *image, 2), (*window, 2, outs)
        return _of_windows(dims, padding, window, strides) | {
            "input": _floats(rng, *x), "filter": _floats(rng, *f), "input_sizes": x, "filter_sizes": f,
            "out_backprop": _floats(rng, batch, *result, 2 * outs if depthwise else outs)}
    return draw


def _dilation(rng: Rng) -> Drawn:
    image, window, strides, result, padding = _windows(rng, 2)
    batch = int(rng.integers(1, 4))
    return _of_windows(2, padding, window, strides) | {
        "input": _floats(rng, batch, *image, 2), "filter": _floats(rng, *window, 2),
        "out_backprop": _floats(rng, batch, *result, 2)}


def _pool(dims: int, second: bool = False) -> Joint:
    """Args:
        second: of a gradient's gradient, which has the image's sizes.
    """
    def draw(rng: Rng) -> Drawn:
        image, window, strides, result, padding = _windows(rng, dims)
        batch, channels = _sizes(rng, 2, 1, 3)
        x, y = (batch, *image, channels), (batch, *result, channels)
        drawn = _of_windows(dims, padding, window, strides)
        argmax = np.zeros(y, np.int64)
        return drawn | {"orig_input": _floats(rng, *x), "input": _floats(rng, *x), "orig_output": _floats(rng, *y),
                        "orig_input_shape": x, "grad": _floats(rng, *(x if second else y)), "argmax": argmax,
                        "Targmax": tf.int64, "TInput": tf.float32}
    return draw


def _batch_norm(rng: Rng) -> Drawn:
    batch, rows, columns, channels = _sizes(rng, 4)
    image = (batch, rows, columns, channels)
    training = bool(rng.integers(0, 2))
    each = {name: _floats(rng, channels) for name in ("scale", "offset", "reserve_space_1", "reserve_space_2")}
    return each | {"x": _floats(rng, *image), "y_backprop": _floats(rng, *image), "data_format": "NHWC",
                   "is_training": training, "reserve_space_3": np.zeros(0), "T": tf.float32, "U": tf.float32,
                   "exponential_avg_factor": 1.0,
                   **{name: np.zeros(0) if training else _floats(rng, channels) for name in ("mean", "variance")}}


def _same(*names: str, rank: int, **others: Any) -> Joint:
    """Inputs of one shape."""
    return lambda rng: dict.fromkeys(names, _floats(rng, *_sizes(rng, rank))) | others


def _boxes(rng: Rng, *shape: int) -> NDArray[Any]:
    corners = rng.random((*shape, 2)) * 0.4
    return np.concatenate([corners, corners + 0.5], -1)


def _crops(rng: Rng) -> Drawn:
    batch, rows, columns, depth, boxes, high, wide = _sizes(rng, 7, 2, 6)
    return {"grads": _floats(rng, boxes, high, wide, depth), "image": _floats(rng, batch, rows, columns, depth),
            "boxes": _boxes(rng, boxes), "box_ind": np.zeros(boxes), "image_size": [batch, rows, columns, depth],
            "T": tf.float32, "method": "bilinear"}


def _suppression(rng: Rng) -> Drawn:
    count = int(rng.integers(1, 7))
    return {"boxes": _boxes(rng, count), "scores": _floats(rng, count), "max_output_size": int(rng.integers(1, 5)),
            "iou_threshold": 0.5, "score_threshold": 0.0, "soft_nms_sigma": 0.0, "overlaps": _floats(rng, count, count),
            "overlap_threshold": 0.5, "T": tf.float32, "T_threshold": tf.float32}


def _all_suppressions(rng: Rng) -> Drawn:
    batch, count, classes = _sizes(rng, 3)
    return {"boxes": np.stack([_boxes(rng, batch, count)], 2), "scores": _floats(rng, batch, count, classes),
            "max_output_size_per_class": 2, "max_total_size": int(rng.integers(1, 5)), "iou_threshold": 0.5,
            "score_threshold": 0.0}


def _images(rng: Rng) -> Drawn:
    """Images with three channels, and what several ops draw on them or cut out of them."""
    batch, rows, columns = _sizes(rng, 3, 3, 7)
    image = _floats(rng, batch, rows, columns, 3)
    return {"images": image, "input": image, "scale": 0.5, "boxes": _boxes(rng, batch, 2), "colors": _floats(rng, 2, 4),
            "size": rng.integers(1, 4, 2), "offsets": np.zeros((batch, 2)), "T": tf.float32, "dtype": tf.float32,
            "transforms": np.array([[1, 0, 0, 0, 1, 0, 0, 0]] * batch), "output_shape": rng.integers(1, 6, 2),
            "fill_value": 0.0, "interpolation": "NEAREST", "fill_mode": "CONSTANT", "contrast_factor": 0.5,
            "translation": [0, 0], "kernel_type": "lanczos3", "noise": "uniform", "uniform_noise": False}


def _scaled(rng: Rng) -> Drawn:
    image = _images(rng)
    rows, columns = map(int, rng.integers(1, 6, 2))
    batch = image["images"].shape[0]
    return image | {"size": [rows, columns], "scale": [1.0, 1.0], "original_image": image["images"],
                    "grads": _floats(rng, batch, rows, columns, 3)}


def _patches(rng: Rng) -> Drawn:
    image, window, strides, _, padding = _windows(rng, 3)
    return _of_windows(3, padding, window, strides) | {
        "input": _floats(rng, 2, *image, 2), "ksizes": [1, *window, 1]}


def _lstm(rng: Rng) -> Drawn:
    """Of a step, or of all; gradients of steps have no recipe of their own."""
    time, batch, ins, cell = _sizes(rng, 4)
    names = ("i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad")
    steps = {name: _floats(rng, time, batch, cell) for name in names}
    return steps | {"x": _floats(rng, time, batch, ins), "seq_len_max": time, "cs_prev": _floats(rng, batch, cell),
                    "h_prev": _floats(rng, batch, cell), "w": _floats(rng, ins + cell, 4 * cell),
                    "wci": _floats(rng, cell), "wcf": _floats(rng, cell), "wco": _floats(rng, cell),
                    "b": _floats(rng, 4 * cell), "T": tf.float32, "use_peephole": False}


def _lstm_cell(rng: Rng) -> Drawn:
    batch, ins, cell = _sizes(rng, 3)
    names = ("cs_prev", "h_prev", "i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad", "r", "u", "c", "d_h")
    gates = {name: _floats(rng, batch, cell) for name in names}
    return gates | {"x": _floats(rng, batch, ins), "w": _floats(rng, ins + cell, 4 * cell), "wci": _floats(rng, cell),
                    "wcf": _floats(rng, cell), "wco": _floats(rng, cell), "b": _floats(rng, 4 * cell), "T": tf.float32,
                    "w_ru": _floats(rng, ins + cell, 2 * cell), "w_c": _floats(rng, ins + cell, cell),
                    "b_ru": _floats(rng, 2 * cell), "b_c": _floats(rng, cell), "use_peephole": False}


def _ctc(rng: Rng) -> Drawn:
    batch, classes = int(rng.integers(1, 4)), int(rng.integers(3, 6))
    time = int(rng.integers(4, 7))
    return {"inputs": _floats(rng, time, batch, classes), "labels_indices": [[i, 0] for i in range(batch)],
            "labels_values": [0] * batch, "sequence_length": [time] * batch, "T": tf.float32,
            "preprocess_collapse_repeated": False, "ctc_merge_repeated": True, "beam_width": 3, "top_paths": 1}


def _sparse(rng: Rng) -> Drawn:
    """One sparse matrix under all names, and dense ones of its shape."""
    rows, columns = _sizes(rng, 2, 2, 5)
    count = int(rng.integers(1, rows))
    indices = np.array([[i, int(rng.integers(0, columns))] for i in range(count)])
    values, shape, dense = _floats(rng, count), [rows, columns], _floats(rng, rows, columns)
    kinds = {"indices": indices, "values": values, "shape": shape}
    names: Mapping[str, Sequence[str]] = {
        "indices": ("sp_indices", "input_indices", "a_indices", "b_indices", "indices", "sparse_indices"),
        "values": ("sp_values", "input_values", "a_values", "b_values", "values", "sparse_values", "backprop_val_grad"),
        "shape": ("sp_shape", "input_shape", "a_shape", "b_shape", "shape", "shapes", "dense_shape", "sparse_shape")}
    drawn: Drawn = {name: kinds[kind] for kind, some in names.items() for name in some}
    return drawn | {"dense": dense, "b": dense, "reduction_axes": [int(rng.integers(0, 2))], "concat_dim": 0,
                    "new_shape": [-1], "split_dim": 0, "start": [0, 0], "size": [rows, 1], "default_value": 0.0,
                    "T": tf.float32, "Tindices": tf.int64, "num_split": 2, "N": 2}


def _segments(rng: Rng) -> Drawn:
    rows, width, count, segments = _sizes(rng, 4, 1, 5)
    return {"grad": _floats(rng, segments, width), "indices": rng.integers(0, rows, count), "output_dim0": rows,
            "segment_ids": np.sort(rng.integers(0, segments, count)), "num_segments": segments,
            "data": _floats(rng, rows, width), "T": tf.float32, "dense_output_dim0": rows}


def _scatter(rng: Rng) -> Drawn:
    rows, width, count = _sizes(rng, 3)
    return {"tensor": _floats(rng, rows, width), "indices": rng.integers(0, rows, (count, 1)),
            "updates": _floats(rng, count, width), "T": tf.float32, "bad_indices_policy": ""}


def _strides(rng: Rng) -> Drawn:
    rows, columns = _sizes(rng, 2, 2, 6)
    end = [int(rng.integers(1, rows + 1)), int(rng.integers(1, columns + 1))]
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    part = _floats(rng, *end)
    return masks | {"shape": [rows, columns], "input": _floats(rng, rows, columns), "begin": [0, 0], "end": end,
                    "strides": [1, 1], "dy": part, "value": part, "T": tf.float32, "Index": tf.int32}


def _diagonals(rng: Rng) -> Drawn:
    batch, rows, columns = _sizes(rng, 3)
    return {"input": _floats(rng, batch, rows, columns), "diagonal": _floats(rng, batch, min(rows, columns)), "k": 0,
            "align": "RIGHT_LEFT", "T": tf.float32}


def _tridiagonal(rng: Rng) -> Drawn:
    batch, size, sides = _sizes(rng, 3)
    diagonal = {name: _floats(rng, batch, 1, size) for name in ("superdiag", "maindiag", "subdiag")}
    return diagonal | {"rhs": _floats(rng, batch, size, sides), "T": tf.float32}


def _random(rng: Rng) -> Drawn:
    """Of generators with a key and a counter."""
    return {"shape": _sizes(rng, 2), "key": [1], "counter": [1, 2], "alg": 1, "minval": 0, "maxval": 5,
            "alpha": 0.5, "Tshape": tf.int32, "dtype": tf.float32, "seed": [1, 2]}


def _random_integers(rng: Rng) -> Drawn:
    return _random(rng) | {"dtype": tf.int32}


def _candidates(rng: Rng) -> Drawn:
    rows, true = _sizes(rng, 2, 1, 4)
    return {"true_classes": rng.integers(0, 5, (rows, true)), "num_true": true, "num_sampled": int(rng.integers(1, 4)),
            "unique": True, "range_max": 9, "sampled_candidates": rng.integers(0, 5, 4)}


def _classes(rng: Rng) -> Drawn:
    rows, classes = _sizes(rng, 2, 2, 6)
    return {"predictions": _floats(rng, rows, classes), "targets": rng.integers(0, classes, rows), "k": 1,
            "input": _floats(rng, rows, classes)}


def _channels(rng: Rng) -> Drawn:
    rows, channels = _sizes(rng, 2)
    x = _floats(rng, rows, channels)
    return {"inputs": x, "gradients": x, "min": np.zeros(channels), "max": np.ones(channels), "num_bits": 8,
            "narrow_range": False}


def _sets(rng: Rng) -> Drawn:
    rows, first, second = _sizes(rng, 3)
    return {"set1": rng.integers(0, 4, (rows, first)), "set2": rng.integers(0, 4, (rows, second)), "T": tf.int32,
            "set_operation": "intersection", "validate_indices": False}


def _fft(rank: int) -> Joint:
    return lambda rng: {"input": _floats(rng, *_sizes(rng, 3, 2, 6)), "fft_length": _sizes(rng, rank, 2, 6)}


def _distorted(rng: Rng) -> Drawn:
    return {"image_size": [8, 8, 3], "bounding_boxes": _boxes(rng, 1, int(rng.integers(1, 4))), "seed": [1, 2],
            "min_object_covered": 0.1, "T": tf.int32, "aspect_ratio_range": [0.75, 1.33], "area_range": [0.05, 1.0]}


def _fractions(rng: Rng) -> Drawn:
    return {"value": _floats(rng, *_sizes(rng, 4, 3, 7)), "pooling_ratio": [1.0, 1.4, 1.4, 1.0], "T": tf.float32}


def _dequantized(rng: Rng) -> Drawn:
    return {"input": rng.integers(0, 9, _sizes(rng, 2)), "min_range": 0.0, "max_range": 1.0, "T": tf.quint8, "axis": -1,
            "dtype": tf.float32, "mode": "MIN_COMBINED"}


def _each(names: str, joint: Joint) -> dict[str, Joint]:
    return dict.fromkeys(names.split(), joint)


JOINT_RECIPES: Mapping[str, Joint] = {
    **_each("Conv2DBackpropInput Conv2DBackpropFilter Conv2DBackpropInputV2 Conv2DBackpropFilterV2", _convolution(2)),
    **_each("Conv3DBackpropInput Conv3DBackpropFilter Conv3DBackpropInputV2 Conv3DBackpropFilterV2", _convolution(3)),
    **_each("DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter", _convolution(2, depthwise=True)),
    **_each("Dilation2DBackpropInput Dilation2DBackpropFilter", _dilation),
    **_each("MaxPoolGrad MaxPoolGradWithArgmax AvgPoolGrad MaxPoolGradV2", _pool(2)),
    **_each("MaxPool3DGrad AvgPool3DGrad", _pool(3)),
    **_each("MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax", _pool(2, second=True)),
    "MaxPool3DGradGrad": _pool(3, second=True),
    **_each("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2 "
            "FusedBatchNormGradV3", _batch_norm),
    "LRNGrad": _same("input_grads", "input_image", "output_image", rank=4, T=tf.float32),
    **_each("CropAndResizeGradImage CropAndResizeGradBoxes", _crops),
    **_each("NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 "
            "NonMaxSuppressionWithOverlaps", _suppression),
    "CombinedNonMaxSuppression": _all_suppressions,
    **_each("AdjustSaturation AdjustContrastv2 DrawBoundingBoxes DrawBoundingBoxesV2 ExtractGlimpse ExtractGlimpseV2 "
            "ImageProjectiveTransformV2 ImageProjectiveTransformV3", _images),
    **_each("ScaleAndTranslate ScaleAndTranslateGrad ResizeNearestNeighborGrad", _scaled),
    "ExtractVolumePatches": _patches,
    **_each("BlockLSTM BlockLSTMV2 BlockLSTMGrad BlockLSTMGradV2", _lstm),
    **_each("LSTMBlockCell LSTMBlockCellGrad GRUBlockCell GRUBlockCellGrad", _lstm_cell),
    **_each("CTCLoss CTCLossV2 CTCGreedyDecoder CTCBeamSearchDecoder", _ctc),
    **_each("SparseAdd SparseConcat SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseReduceMax "
            "SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseReshape SparseReorder SparseSoftmax "
            "SparseSparseMaximum SparseSparseMinimum SparseSplit SparseSlice SparseTensorDenseAdd SparseFillEmptyRows "
            "SparseTensorDenseMatMul", _sparse),
    **_each("SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad SparseSegmentMeanGradV2 "
            "SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2 SparseSegmentMeanWithNumSegments "
            "SparseSegmentSqrtNWithNumSegments SparseSegmentSumWithNumSegments", _segments),
    **_each("TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate", _scatter),
    **_each("StridedSliceGrad TensorStridedSliceUpdate", _strides),
    **_each("MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3", _diagonals),
    **_each("TridiagonalMatMul", _tridiagonal),
    **_each("StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2 StatelessRandomGammaV3",
            _random),
    **_each("StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2", _random_integers),
    **_each("LearnedUnigramCandidateSampler LogUniformCandidateSampler UniformCandidateSampler ComputeAccidentalHits "
            "ThreadUnsafeUnigramCandidateSampler FixedUnigramCandidateSampler AllCandidateSampler", _candidates),
    **_each("InTopK InTopKV2 TopK", _classes),
    **_each("FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient", _channels),
    "DenseToDenseSetOperation": _sets,
    **_each("RFFT3D IRFFT3D", _fft(3)),
    **_each("SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox", _distorted),
    **_each("FractionalAvgPool FractionalMaxPool", _fractions),
    "Dequantize": _dequantized,
}
