"""The plan passes, in order: from the patterns of a region to kernels whose values have places."""

from __future__ import annotations

from tf_stitch.compiler.bounded_sums import BoundedSums
from tf_stitch.compiler.cooperative_fusion import CooperativeFusion
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.make_kernels import MakeKernels, TunedTemplates
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.private_values import PrivateValues
from tf_stitch.compiler.recomputed_values import RecomputedValues
from tf_stitch.compiler.reverse_block_order import ReverseBlockOrder
from tf_stitch.compiler.row_updates import RowUpdates
from tf_stitch.compiler.storage_passes import DecideStorage, PlaceValues
from tf_stitch.compiler.stored_choices import StoredChoices
from tf_stitch.pass_manager import Pass
from tf_stitch.schedule.reuse import Reuse

PROGRAMS = 5
"""Of the time limit of one integer program: a region has one for its memory, and many for its kernels."""


def plan_passes(compiler: PatternCompiler, options: CompileOptions, footprint: int
                ) -> tuple[Pass[KernelPlan], ...]:
    """Plan passes for a new plan.

    Args:
        footprint: bytes that a run of the whole region reads and writes (see ModelCost).
    """
    device = options.device
    reuses = options.reuse is not Reuse.MAPPING
    whole = options.patterns is None  # not cut short to find a pattern that is wrong
    one_size = options.plans is None  # of kernels for all sizes it is not known how many blocks are resident
    make: tuple[Pass[KernelPlan], ...] = (
        MakeKernels(compiler),
        *([CooperativeFusion(device, footprint)]
          if one_size and device.grid_barrier and options.plan.barriers and reuses else []),
        *([TunedTemplates(compiler)] if one_size else []),  # after fusion, which predicts times
        *([ReverseBlockOrder(device)] if one_size and device.simt else []),
        BoundedSums(),  # after all that asks for the time of a kernel, or compares kernels
        DecideStorage(device.queued, device.profile.sizes.order_bytes),
    )
    return (
        *([PrivateValues(compiler.exact, compiler.profile.sizes.cycles_per_byte)]
          if device.simt and reuses and whole else []),  # changes what kernels are made
        *make,
        *([RowUpdates(compiler.exact, device, footprint, make)] if device.simt and one_size and whole else []),
        *_within_budget(compiler, options, make),
        PlaceValues(),  # last: others change what lives when
    )


def _within_budget(compiler: PatternCompiler, options: CompileOptions, make: tuple[Pass[KernelPlan], ...]
                   ) -> tuple[Pass[KernelPlan], ...]:
    if options.memory is None or options.plans is not None or options.patterns is not None:
        return ()
    stored = None if options.stored is None else StoredChoices(options.stored.cache, options.stored.circumstances)
    return (RecomputedValues(options.memory, compiler, options.device.queued, options.plan.solver,
                             options.plan.seconds * PROGRAMS, make, stored),)


def passes_for_known_plan(compiler: PatternCompiler, options: CompileOptions) -> tuple[Pass[KernelPlan], ...]:
    """Plan passes for a plan, known from other sizes, that earlier passes have changed already."""
    device = options.device
    storage = DecideStorage(device.queued, device.profile.sizes.order_bytes)
    return MakeKernels(compiler), BoundedSums(), storage, PlaceValues()
