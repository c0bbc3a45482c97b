"""Cases of convolutions and their gradients, computed as library calls."""

from __future__ import annotations

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


def sizes_of(x: Array) -> Fixed:
    return Fixed(np.array(x.shape, np.int32))


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
    for dtype in (DType.F32, DType.F64):  # its kernel is registered for halves, too, and refuses them
        for name in ("", "Relu", "Relu6"):
            inputs = {"input": ramp((2, 5, 6, 3), dtype), "filter": ramp((3, 2, 3, 4), dtype, 3),
                      "args": [ramp((4,), dtype)], "host_args": []}
            fused = {"fused_ops": ["BiasAdd", *([name] if name else [])], "num_args": 1}
            yield Case("_FusedConv2D", inputs, SETTINGS["same"] | fused, f"{dtype.value} {name}".strip(),
                       gradient=False, **CLOSE)
