"""Whether a program may compute by TensorFlow's graphs at first, and by kernels later."""

from __future__ import annotations

from tf_stitch.config import StitchConfig
from tf_stitch.native.bindings import OpLibrary


def may_run_both(config: StitchConfig) -> bool:
    """Whether both forms of a region may run, one after the other."""
    return config.profitability_check and not config.strict and config.fuel is None


def calls_may_change(config: StitchConfig, native: OpLibrary | None) -> bool:
    """Whether calls of a function may run one graph now, and another one later."""
    return may_run_both(config) and config.short_calls and native is not None and native.callers_executor
