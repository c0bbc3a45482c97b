"""How regions are compiled."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_stitch.compiler.stored_plans import StoredPlans
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.measured_fusions import MeasuredFusions
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.schedule.reuse import Reuse


@dataclass(frozen=True)
class CompileOptions:
    """How to compile one region.

    Attributes:
        aligned: every buffer starts at a multiple of 16 bytes.
        measured: times that go before predicted ones.
        patterns: how many patterns of more than one node are kept, the first ones; None: all.
        reuse: how far kernels reuse values; less than all is for experiments.
        plans: for a graph with sizes that change (see ir.sizes): plans known from other sizes. Kernels are then named
            after their text, and get those sizes as arguments.
        stored: plans of earlier processes.
        templates: templates for kernels; None: those of the families.
        fusions: of kernels that share blocks; None: none do.
        memory: what the region may take, by computing values again; None: as much as the fastest plan does. Graphs
            with sizes that change are planned without.
    """

    device: DeviceSpec
    plan: PlanOptions = field(default_factory=PlanOptions)
    aligned: bool = True
    measured: MeasuredTimes | None = None
    patterns: int | None = None
    plans: PlanMemory | None = None
    reuse: Reuse = Reuse.MERGED
    stored: StoredPlans | None = None
    templates: TemplateChoice | None = None
    fusions: MeasuredFusions | None = None
    memory: MemoryBudget | None = None
