"""TensorFlow's MLIR optimizer cannot write a graph down that has float8_e5m2 in it, which Keras' float8 quantises
gradients to: then TensorFlow leaves the graph as it was traced, and no graph hook sees it. Programs that do so go
without that optimizer."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from tf_stitch.plugin.graph_hook import is_on
from tf_stitch.plugin.post_import import after_import

MODULE = "keras.src.quantizers"


def optimize_graphs_of_e5m2() -> None:
    """Has graphs optimised in which Keras quantises to float8_e5m2, whether it has been imported or will be. A Keras
    that quantises in another way stays as it is."""
    after_import(MODULE, _patch)


def _patch(module: ModuleType) -> None:
    wrapped = getattr(module, "quantize_and_dequantize", None)
    if wrapped is None or getattr(wrapped, "__wrapped__", None) is not None:
        return

    @functools.wraps(wrapped)
    def quantize_and_dequantize(inputs: Any, scale: Any, quantized_dtype: str, compute_dtype: str) -> Any:
        if quantized_dtype == "float8_e5m2" and is_on():
            _leave_mlir_out()
        return wrapped(inputs, scale, quantized_dtype, compute_dtype)

    module.quantize_and_dequantize = quantize_and_dequantize  # type: ignore[attr-defined]


def _leave_mlir_out() -> None:
    """For functions that are called from now on, in this process."""
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context

    eager = context.context()
    config = config_pb2.ConfigProto() if eager._config is None else eager._config
    if not config.graph_options.rewrite_options.disable_tfg_optimizer:
        config.graph_options.rewrite_options.disable_tfg_optimizer = True
        eager._config = config
        eager.function_call_options = None  # made again from the configuration
