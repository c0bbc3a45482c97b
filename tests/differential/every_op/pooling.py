"""Cases of poolings and their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tests.differential.every_op.case import Case, Fixed, kernel_types, ramp

SETTINGS: dict[str, dict[str, Any]] = {
    "same": {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
    "valid": {"ksize": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "padding": "VALID"}}
SIZES = {"same": (3, 4), "valid": (5, 3)}
"""Of results, for images of 6 x 7."""
CLOSE: dict[str, Any] = {"ulp": 8, "scale": 8}


def poolings() -> Iterator[Case]:
    for label, attrs in SETTINGS.items():
        windows = {name: Fixed(np.array(attrs[name], np.int32)) for name in ("ksize", "strides")}
        padding = {"padding": attrs["padding"]}
        volumes = {name: [1, 2, *attrs[name][1:]] for name in ("ksize", "strides")} | padding
        for dtype in kernel_types("MaxPool", "T"):
            title, x, grad = f"{dtype.value} {label}", ramp((2, 6, 7, 3), dtype), ramp((2, *SIZES[label], 3), dtype, 5)
            yield Case("MaxPool", {"input": x}, attrs, title, gradient=False)
            yield Case("MaxPoolV2", {"input": x, **windows}, padding, title, gradient=False)
            given = {"orig_input": x, "orig_output": grad, "grad": grad}  # the result is not looked at
            if dtype in kernel_types("MaxPoolGrad", "T"):
                yield Case("MaxPoolGrad", given, attrs, title, gradient=False, **CLOSE)
                yield Case("MaxPoolGradV2", given | windows, padding, title, gradient=False, **CLOSE)
        for dtype in kernel_types("AvgPool", "T"):
            title, x, grad = f"{dtype.value} {label}", ramp((2, 6, 7, 3), dtype), ramp((2, *SIZES[label], 3), dtype, 5)
            yield Case("AvgPool", {"value": x}, attrs, title, gradient=False, **CLOSE)
            shape = Fixed(np.array(x.shape, np.int32))
            yield Case("AvgPoolGrad", {"orig_input_shape": shape, "grad": grad}, attrs, title, gradient=False, **CLOSE)
        for dtype in kernel_types("MaxPool3D", "T"):
            title, x = f"{dtype.value} {label}", ramp((2, 4, 6, 7, 3), dtype)
            yield Case("MaxPool3D", {"input": x}, volumes, title, gradient=False)
            largest = tf.raw_ops.MaxPool3D(input=x, **volumes).numpy()
            given = {"orig_input": x, "orig_output": largest, "grad": ramp((2, 2, *SIZES[label], 3), dtype, 5)}
            if dtype in kernel_types("MaxPool3DGrad", "T"):
                yield Case("MaxPool3DGrad", given, volumes, title, gradient=False, **CLOSE)
        for dtype in kernel_types("AvgPool3D", "T"):
            title, grad = f"{dtype.value} {label}", ramp((2, 2, *SIZES[label], 3), dtype, 5)
            yield Case("AvgPool3D", {"input": ramp((2, 4, 6, 7, 3), dtype)}, volumes, title, gradient=False, **CLOSE)
            shape = Fixed(np.array((2, 4, 6, 7, 3), np.int32))
            yield Case("AvgPool3DGrad", {"orig_input_shape": shape, "grad": grad}, volumes, title, gradient=False,
                       **CLOSE)
