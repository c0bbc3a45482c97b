"""Types of the native op's C exports, and of the callbacks that it takes (op/callbacks.h, op/exports.cc)."""

from __future__ import annotations

import ctypes
from typing import Any

from tf_stitch.native.fallback_call import DIMS

BUILD_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.c_int64,
    ctypes.c_int64, ctypes.c_void_p
)
FALLBACK_SUBGRAPH_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p)
FALLBACK_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p)
RECALL_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int32, DIMS, ctypes.c_int64,
                                   DIMS)
SETTLE_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int32, DIMS, ctypes.c_int64, ctypes.c_int32,
                                   ctypes.c_double, ctypes.c_double, ctypes.c_int32, ctypes.c_int64, DIMS)
NOT_TIMED_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_char_p)
LABELS_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int32, DIMS, ctypes.c_int64, ctypes.c_void_p)
LEFT_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)
SMALLER_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int32, DIMS, ctypes.c_int64, ctypes.c_int64,
                                    ctypes.c_void_p)
GRAPHS_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int32, DIMS, ctypes.c_char_p)
REASON_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)

SHAPES_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p,
                                   ctypes.c_int64, ctypes.c_int64)


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library with a type for each export that Python calls."""
    c = ctypes
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "tfs_set_callbacks": (None, [BUILD_CALLBACK, FALLBACK_SUBGRAPH_CALLBACK, FALLBACK_CALLBACK, RECALL_CALLBACK,
                                     SETTLE_CALLBACK, NOT_TIMED_CALLBACK, LABELS_CALLBACK, LEFT_CALLBACK,
                                     SMALLER_CALLBACK]),
        "tfs_callers_executor": (c.c_int32, []),
        "tfs_interrupt_loops": (None, [c.c_int32]),
        "tfs_require_token": (None, [c.c_int64]),
        "tfs_restrict_modules": (None, [c.c_char_p]),
        "tfs_region_kernels": (c.c_int32, [c.c_int64]),
        "tfs_release_handles": (None, [c.c_int64, c.c_int64]),
        "tfs_fallback_subgraph_set": (None, [c.c_void_p, c.c_char_p, c.c_int64]),
        "tfs_enable_profitability_check": (None, [c.c_int32, c.c_int64, c.c_double]),
        "tfs_visit_reasons": (None, [REASON_CALLBACK]),
        "tfs_region_preferred_fallbacks": (c.c_int64, [c.c_int64]),
        "tfs_region_shadows": (c.c_int64, [c.c_int64]),
        "tfs_result_set": (None, [c.c_void_p, DIMS, c.c_int64]),
        "tfs_label_set": (None, [c.c_void_p, c.c_int32, c.c_char_p]),
        "tfs_result_error": (None, [c.c_void_p, c.c_char_p]),
        "tfs_fail_allocation": (None, [c.c_int64]),
        "tfs_result_fallback_bytes": (None, [c.c_void_p, c.c_int64]),
        "tfs_stat": (c.c_int64, [c.c_int]),
        "tfs_visit_shapes": (None, [SHAPES_CALLBACK, c.c_void_p]),
        "tfs_serves": (c.c_int32, []),
        "tfs_serving_library": (c.c_char_p, []),
        "tfs_sources": (c.c_char_p, []),
        "tfs_load_cublas_lt": (c.c_char_p, [c.c_char_p]),
        "tfs_load_ahead": (c.c_char_p, [c.c_int32, DIMS, c.c_int64, DIMS, c.c_int64, c.c_int64, c.c_int64]),
        "tfs_load_cudnn": (c.c_char_p, [c.c_char_p]),
        "tfs_cudnn_version": (c.c_int64, []),
        "tfs_try_calls": (c.c_char_p, [c.c_int32, DIMS, c.c_int64]),
        "tfs_load_nccl": (c.c_char_p, [c.c_char_p]),
        "tfs_set_graphs": (None, [c.c_int, c.c_int]),
        "tfs_visit_graphs": (None, [GRAPHS_CALLBACK]),
        "tfs_region_runs": (c.c_int64, [c.c_int64]),
        "tfs_region_fallbacks": (c.c_int64, [c.c_int64]),
        "tfs_call_num_inputs": (c.c_int32, [c.c_void_p]),
        "tfs_call_num_variables": (c.c_int32, [c.c_void_p]),
        "tfs_call_num_outputs": (c.c_int32, [c.c_void_p]),
        "tfs_call_output_type": (c.c_int32, [c.c_void_p, c.c_int]),
        "tfs_call_device": (c.c_int32, [c.c_void_p]),
        "tfs_call_reason": (c.c_char_p, [c.c_void_p]),
        "tfs_call_input": (
            c.c_void_p,
            [c.c_void_p, c.c_int, c.POINTER(c.c_int32), c.POINTER(c.c_int32), c.POINTER(DIMS)],
        ),
        "tfs_call_output": (c.c_void_p, [c.c_void_p, c.c_int, c.c_int32, DIMS]),
        "tfs_call_state": (c.c_void_p, [c.c_void_p, c.c_int, c.c_int32, DIMS]),
        "tfs_call_same_as": (c.c_int32, [c.c_void_p, c.c_int]),
        "tfs_call_error": (None, [c.c_void_p, c.c_int32, c.c_char_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
