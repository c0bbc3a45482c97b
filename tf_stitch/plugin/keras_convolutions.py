"""Keras 3 has XLA compile every convolution with groups, since TensorFlow's kernels for CPUs have no gradients of them.
Those for GPUs have, and a function that XLA compiles would split the regions around it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tf_stitch.plugin.graph_hook import is_on
from tf_stitch.plugin.post_import import after_import

MODULE = "keras.src.backend.tensorflow.nn"


def leave_xla_out_on_gpus() -> None:
    """Makes Keras call TensorFlow's convolution on GPUs, whether it has been imported or will be. A Keras that calls
    its convolutions in another way stays as it is."""
    after_import(MODULE, _patch)


def _patch(module: ModuleType) -> None:
    names = ("tf", "backend", "conv", "_convert_data_format")
    if all(hasattr(module, name) for name in names) and not hasattr(module.conv, "__wrapped__"):
        module.conv = without_xla(module, lambda x: is_on() and _is_on_gpu(module.tf, x))  # type: ignore[attr-defined]


def without_xla(module: ModuleType, where: Callable[[Any], bool]) -> Callable[..., Any]:
    """`conv` of Keras' module, which calls TensorFlow's op for images in groups.

    Args:
        where: whether it does, by the images.
    """
    original = module.conv

    @functools.wraps(original)
    def conv(inputs: Any, kernel: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
             dilation_rate: Any = 1) -> Any:
        order = module.backend.standardize_data_format(data_format)
        channels = inputs.shape[-1 if order == "channels_last" else 1]
        rank = len(inputs.shape)
        if rank not in (4, 5) or channels == kernel.shape[-2] or not where(inputs):
            return original(inputs, kernel, strides, padding, data_format, dilation_rate)
        return module.tf.nn.convolution(inputs, kernel, strides, padding.upper(), dilations=dilation_rate,
                                        data_format=module._convert_data_format(order, rank))

    return conv


def _is_on_gpu(tf: Any, x: Any) -> bool:
    """Whether an op of x would be: a graph places what names no device on a GPU if there is one."""
    device = tf.identity(x).device
    return "GPU" in device or (not device and bool(tf.config.list_logical_devices("GPU")))
