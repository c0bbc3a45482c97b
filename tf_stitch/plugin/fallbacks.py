"""Regions without their kernels: by the nodes that they replaced, natively or through Python, or by their tensor IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tf_stitch.config import StitchConfig
from tf_stitch.errors import StitchError, is_of_empty_tensor
from tf_stitch.frontend.tensorflow.exporter import run_with_tensorflow
from tf_stitch.graph.clustering.region_graph import input_key, output_key, variable_key
from tf_stitch.graph.fallback.fallback_subgraph import FallbackSubgraph
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.region_builder import CPU_ORDINAL
from tf_stitch.jit.region_registry import RegionRegistry
from tf_stitch.native.fallback_call import FallbackCall
from tf_stitch.plugin.graph_hook import suspended
from tf_stitch.report.report import Report

_NOTHING_BUILT = "nothing was built for these shapes"
"""As native/op/region_runtime.h has it."""


class Fallbacks:
    """Called by the native op, on any thread.

    Args:
        where: what to call a region.

    Attributes:
        subgraphs: of regions that have one.
    """

    def __init__(self, config: StitchConfig, registry: RegionRegistry, report: Report, where: Callable[[int], str]
                 ) -> None:
        self._config, self._registry, self._report, self._where = config, registry, report, where
        self.subgraphs: dict[int, FallbackSubgraph] = {}

    def subgraph(self, region: int, reason: str) -> bytes | None:
        """The nodes that a region replaced, as a serialized FunctionDef for the native op; None to run them through
        `run`. Asked for once per reason, "" when they are timed."""
        nodes = self.subgraphs.get(region)
        if nodes is None or self._forbids(reason):
            return None
        try:
            function: bytes = nodes.function(f"tf_stitch_fallback_{region}").SerializeToString()
        except StitchError as error:
            self._report.note("fallback function", self._where(region), reason_of(error))
            return None
        if reason == _NOTHING_BUILT:  # which the build has said, with its reason
            self._report.note("run", self._where(region), reason)
        elif reason:
            self._report.fallback("run", self._where(region), reason)
        return function

    def run(self, region: int, call: FallbackCall) -> None:
        """Runs a region by TensorFlow's own kernels. What they raise is the user's error, in strict mode too."""
        outputs, state = self._outputs(region, call.inputs, call.variables, call.same_as)
        if self._forbids(call.reason):
            raise StitchError(f"{self._where(region)}: {call.reason} (TF_STITCH=strict)")
        if call.reason:
            self._report.fallback("run", self._where(region), call.reason)
        for i, value in enumerate(outputs):
            call.set_output(i, value)
        for i, value in state.items():
            call.set_state(i, value)

    def _forbids(self, reason: str) -> bool:
        """Whether strict mode raises a fallback's reason; it has none while its kernels are being built."""
        return self._config.strict and bool(reason) and not is_of_empty_tensor(reason)

    def _outputs(self, region: int, inputs: Sequence[NDArray[Any]], variables: Sequence[NDArray[Any]],
                      same_as: Sequence[int]) -> tuple[list[NDArray[Any]], dict[int, NDArray[Any]]]:
        """Outputs, and new values of variables, by the nodes that the region replaced, else by its tensor IR."""
        subgraph = self.subgraphs.get(region)
        with suspended():
            if subgraph is not None:
                return subgraph.run(inputs, variables, same_as)
            if len(set(same_as)) < len(same_as):
                raise StitchError(f"{self._where(region)} updates a variable that is passed to it twice")
            values = self._values(inputs, variables)
            results = run_with_tensorflow(self._registry.bound(region, [v.shape for v in values.values()]), values)
        state = {i: results[key] for i in range(len(variables)) if (key := variable_key(i)) in results}
        return [results[output_key(i)] for i in range(len(results) - len(state))], state

    def _values(self, inputs: Sequence[NDArray[Any]], variables: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        values = {input_key(i): np.asarray(x) for i, x in enumerate(inputs)}
        return values | {variable_key(i): np.asarray(x) for i, x in enumerate(variables)}

    def run_in_python(self, region: int, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """A region of the py_function wrapping, on the CPU."""
        values = self._values(arrays, ())
        shapes = tuple(v.shape for v in values.values())
        try:
            built = self._registry.build(region, CPU_ORDINAL, Key(True, shapes))
            if built.host is not None:
                return built.host.run(values, {})[0]
            reason = "nothing to compute"
        except StitchError as error:
            reason = reason_of(error)
            if self._forbids(reason):
                raise
        self._report.fallback("run", self._where(region), reason)
        try:
            return self._outputs(region, arrays, (), ())[0]
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(error.message) from error  # PyFunc makes an InvalidArgumentError of that


def reason_of(error: Exception) -> str:
    """What went wrong, for the report."""
    return str(error) if isinstance(error, StitchError) else f"{type(error).__name__}: {error}"
