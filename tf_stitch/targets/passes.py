"""Passes that targets share."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.pass_manager import Pass
from tf_stitch.passes.channels_last import ChannelsLast
from tf_stitch.passes.fold_constants import FoldConstants
from tf_stitch.passes.last_axes_of_one import LastAxesOfOne
from tf_stitch.passes.simplify_algebra import SimplifyAlgebra
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.passes.single_pass_variance import SinglePassVariance
from tf_stitch.passes.two_stage_reductions import TwoStageReductions
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.schedule.shared_rows import shared_rows

SIMPLIFYING: tuple[Pass[TensorGraph], ...] = (
    FoldConstants(),  # sizes become numbers, which the rest relies on
    SimplifyMovement(),
    ChannelsLast(),  # before sums of columns are looked for
    SimplifyAlgebra(),  # before sums are split, which would hide what they are of
    SinglePassVariance(),
    LastAxesOfOne(),  # after what looks for sums over axes as they were given
)
"""What every target begins with, in order."""


@dataclass(frozen=True)
class Splitting:
    """How a target splits long reductions (see TwoStageReductions)."""

    shortest: int
    column_tile: int
    pad: bool

    def two_stages(self, device: DeviceSpec, reuse: Reuse) -> TwoStageReductions:
        """The pass for a device."""
        return TwoStageReductions(tasks=4 * device.processors, shortest=self.shortest, column_tile=self.column_tile,
                                  # H200: layernorm backward 65536x1024 208 us, with twice the parts 216; batch norm
                                  # 202, 206
                                  column_parts=4 * device.processors, longest_part=1 << 14, pad=self.pad,
                                  shared=(0, 0) if reuse is Reuse.MAPPING else shared_rows(device))
