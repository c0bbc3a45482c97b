"""Cases of convolutions and their gradients, computed as library calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.differential.every_op.case import Array, Case, Fixed, kernel_types, ramp
from tf_stitch.ir.dtypes import DType

SETTINGS: dict[str, dict[str, Any]] = {
    "same": {"strides": [1, 1, 1, 1], "padding": "SAME"},
    "strides": {"strides": [1, 2, 3, 1], "padding": "SAME"},
    "valid": {"strides": [1, 2, 2, 1], "padding": "VALID"},
    "explicit": {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 1, 0, 3, 0, 0]}}
SIZES = {"same": (5, 6), "strides": (3, 2), "valid": (2, 3), "explicit": (6, 8)}
"""Of results, for images of 5 x 6 and filters of 3 x 2."""
CLOSE: dict[str, Any] = {"ulp": 8, "scale": 32}


def sizes_of(x: Array, dtype: type = np.int32) -> Fixed:
    return Fixed(np.array(x.shape, dtype))


def convolutions() -> Iterator[Case]:
    for label, attrs in SETTINGS.items():
        for dtype in kernel_types("Conv2D", "T"):
            x, w, y = ramp((2, 5, 6, 3), dtype), ramp((3, 2, 3, 4), dtype, 3), ramp((2, *SIZES[label], 4), dtype, 5)
            title = f"{dtype.value} {label}"
            yield Case("Conv2D", {"input": x, "filter": w}, attrs, title, gradient=False, **CLOSE)
            if dtype in kernel_types("Conv2DBackpropInput", "T"):
                sizes = Fixed(np.array(x.shape, np.int32))
                yield Case("Conv2DBackpropInput", {"input_sizes": sizes, "filter": w, "out_backprop": y}, attrs, title,
                           gradient=False, **CLOSE)
            if dtype in kernel_types("Conv2DBackpropFilter", "T"):
                sizes = Fixed(np.array(w.shape, np.int32))
                yield Case("Conv2DBackpropFilter", {"input": x, "filter_sizes": sizes, "out_backprop": y}, attrs, title,
                           gradient=False, **CLOSE)
            w = ramp((3, 2, 3, 2), dtype, 3)
            y = ramp((2, *SIZES[label], 6), dtype, 5)
            if label == "strides" or dtype not in kernel_types("DepthwiseConv2dNative", "T"):
                continue  # the kernels have equal strides alone
            yield Case("DepthwiseConv2dNative", {"input": x, "filter": w}, attrs, title, gradient=False, **CLOSE)
            for name, inputs in (("Input", {"input_sizes": sizes_of(x), "filter": w}),
                                 ("Filter", {"input": x, "filter_sizes": sizes_of(w)})):
                yield Case(f"DepthwiseConv2dNativeBackprop{name}", {**inputs, "out_backprop": y}, attrs, title,
                           gradient=False, **CLOSE)
    yield from _of_volumes()
    yield from _fused_by_the_remapper()


ACTIVATIONS = ("Relu", "Relu6", "Elu", "LeakyRelu")


def _fused_by_the_remapper() -> Iterator[Case]:
    for dtype in (DType.F32, DType.F64):  # its kernel is registered for halves, too, and refuses them
        for fused in itertools.product(("BiasAdd", "FusedBatchNorm"), ("", *ACTIVATIONS)):
            args = [ramp((4,), dtype)]
            if fused[0] == "FusedBatchNorm":
                args += [ramp((4,), dtype, 3), ramp((4,), dtype, 5), np.abs(ramp((4,), dtype, 2))]
            inputs = {"input": ramp((2, 5, 6, 3), dtype), "filter": ramp((3, 2, 3, 4), dtype, 3), "args": args,
                      "host_args": []}
            yield Case("_FusedConv2D", inputs,
                       SETTINGS["same"] | {"fused_ops": [name for name in fused if name], "num_args": len(args)},
                       f"{dtype.value} {' '.join(fused)}", gradient=False, **CLOSE)


VOLUMES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "same": ({"strides": [1, 1, 1, 1, 1], "padding": "SAME"}, (4, 5, 6)),
    "strides": ({"strides": [1, 2, 1, 3, 1], "padding": "SAME"}, (2, 5, 2)),
    "valid": ({"strides": [1, 1, 2, 2, 1], "padding": "VALID"}, (3, 2, 3))}
"""Sizes of results, for images of 4 x 5 x 6 and filters of 2 x 3 x 2."""


def _of_volumes() -> Iterator[Case]:
    for label, (attrs, size) in VOLUMES.items():
        for dtype in kernel_types("Conv3D", "T"):
            x, w, y = ramp((2, 4, 5, 6, 3), dtype), ramp((2, 3, 2, 3, 4), dtype, 3), ramp((2, *size, 4), dtype, 5)
            title = f"{dtype.value} {label}"
            yield Case("Conv3D", {"input": x, "filter": w}, attrs, title, gradient=False, **CLOSE)
            if dtype in kernel_types("Conv3DBackpropInputV2", "T"):
                for sizes in (sizes_of(x), sizes_of(x, np.int64)):
                    yield Case("Conv3DBackpropInputV2", {"input_sizes": sizes, "filter": w, "out_backprop": y}, attrs,
                               title, gradient=False, **CLOSE)
            if dtype in kernel_types("Conv3DBackpropFilterV2", "T"):
                yield Case("Conv3DBackpropFilterV2", {"input": x, "filter_sizes": sizes_of(w), "out_backprop": y},
                           attrs, title, gradient=False, **CLOSE)
