"""Calls of functions that run in the thread that calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorflow.python.eager.context import Context

EXECUTOR = "TF_STITCH"
"""native/op/callers_executor.cc registers it: a function that is one region runs in the thread that calls it."""
Call = Callable[..., Any]
"""TensorFlow's `Context.call_function`."""


def call_with(original: Call, ctx: Context, executor: str, *arguments: Any) -> Any:
    """Calls a function by an executor. The option goes with the call alone: what is traced, and may be saved, must not
    need ours."""
    options = ctx.function_call_options  # of this thread
    options.executor_type = executor
    try:
        return original(ctx, *arguments)
    finally:
        options.executor_type = None
