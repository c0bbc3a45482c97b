"""Finds the first node whose value differs, where the converted model differs from the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.convert.comparison import compare
from tf_stitch.convert.draft import loaded_draft, rewritten
from tf_stitch.convert.inputs import Case
from tf_stitch.convert.kernels import Kernels
from tf_stitch.convert.measuring import host_executables
from tf_stitch.convert.recording import Recorder
from tf_stitch.convert.rewriting import Rewriting
from tf_stitch.convert.saved_model import Model, Signature
from tf_stitch.graph.clustering.region_graph import RegionGraph, input_key, variable_key
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.native.fallback_call import FallbackCall
from tf_stitch.runtime.host_run import HostExecutable


@dataclass
class _Comparing(Recorder):
    """Runs every region both ways on what it is given, and hands on what its own nodes compute.

    Attributes:
        first_difference: node, and what differs there.
    """

    rewritings: Sequence[Rewriting] = ()
    hosts: dict[tuple[int, Shapes], HostExecutable] | None = None
    tolerance: float = 1.0
    first_difference: str = ""

    def _fallback_subgraph(self, number: int, reason: str) -> bytes | None:
        return None

    def _fallback(self, number: int, call: FallbackCall) -> None:
        place = number - self.first
        rewriting, i = [(r, i) for r in self.rewritings for i in range(len(r.regions))][place]
        region = rewriting.regions[i]
        own = rewriting.found.fallback(region) if rewriting.found is not None else None
        assert own is not None  # see rewriting_of
        outputs, state = own.run(call.inputs, call.variables, call.same_as)
        shapes = tuple(tuple(map(int, np.shape(v))) for v in (*call.inputs, *call.variables))
        host = (self.hosts or {}).get((place, shapes))
        if host is not None and not self.first_difference:
            inputs = {input_key(k): np.asarray(v) for k, v in enumerate(call.inputs)}
            variables = {variable_key(k): np.asarray(v) for k, v in enumerate(call.variables)}
            self._compare(region, outputs, host.run(inputs, variables)[0])
        for k, value in enumerate(outputs):
            call.set_output(k, value)
        for k, value in state.items():
            call.set_state(k, value)

    def _compare(self, region: RegionGraph, expected: Sequence[NDArray[Any]], found: Sequence[NDArray[Any]]) -> None:
        order = {member: i for i, member in enumerate(region.members)}
        for tensor, k in sorted(region.outputs.items(), key=lambda item: order[item[0].rpartition(":")[0]]):
            difference = compare(tensor, np.asarray(expected[k]), np.asarray(found[k]), self.tolerance)
            if not difference.passes:
                self.first_difference = (f"{tensor.removesuffix(':0')} (by {difference.worst:.3g}), a result of the "
                                         f"region of {region.members[0]} ... {region.members[-1]}")
                return


def first_difference(model: Model, rewritings: Sequence[Rewriting], kernels: Kernels, signature: Signature, case: Case,
                     tolerance: float, library: OpLibrary, scratch: Path) -> str:
    """The first node that a region computes otherwise than its own nodes do, on the inputs that it has there; "" if
    none does.

    Raises:
        ConvertError: the draft cannot be loaded.
    """
    recorder = _Comparing([own for r in rewritings for own in r.fallbacks], rewritings=rewritings,
                          hosts=host_executables(kernels), tolerance=tolerance)
    recorder.connect(library)
    try:
        with loaded_draft(model, rewritten(model, rewritings, recorder.first), scratch) as draft:
            draft.run(signature, case.values)
    finally:
        library.clear_callbacks()
    return recorder.first_difference
