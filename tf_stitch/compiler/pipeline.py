"""The table of contents: how a static region becomes an executable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tf_stitch.compiler.assembly import Fusions, assemble
from tf_stitch.compiler.budget_bytes import bytes_of
from tf_stitch.compiler.horizontal_fusion import Launches, fused_launches
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.memory_curve import MemoryCurve, memory_curve
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.plan_passes import passes_for_known_plan, plan_passes
from tf_stitch.compiler.stored_plans import StoredPlans
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Rendered
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import TensorType
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pass_manager import Instrument, Pass, run_passes
from tf_stitch.passes.context import PassContext
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.placement.executable import Executable
from tf_stitch.placement.memory_profile import MemoryProfile, memory_profile
from tf_stitch.planning.limited_patterns import limit_patterns
from tf_stitch.planning.matmul_choice import Stitching
from tf_stitch.planning.memory_program import most
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.planning.planner import plan_region
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.targets.registry import target_of
from tf_stitch.targets.target import LARGE


@dataclass(frozen=True)
class CompiledRegion:
    """Source and steps of a region, not yet built; and what the report says of it.

    Attributes:
        programs: what the symbol of each launch runs, in the order of its arguments.
        launches: the symbol that runs each kernel, "" for one without elements.
        calls: library calls.
        rendered: kernels that other sizes share, by symbol; `source` holds them all.
        own: kernels whose symbols mean nothing beyond this region, if it has such; `source` holds them all.
        resources: what each launch takes on a GPU, by symbol; filled when they are built.
        planned, options: the kernels before they were assembled, and how they were compiled.
    """

    executable: Executable
    source: str
    programs: dict[str, tuple[Program, ...]]
    plan: StitchPlan
    buffers: BufferPlan
    kernels: tuple[LoweredKernel, ...]
    launches: tuple[str, ...]
    seconds: dict[str, float]
    planned: KernelPlan
    options: CompileOptions
    calls: tuple[BoundCall, ...] = ()
    rendered: Mapping[str, Rendered] = field(default_factory=dict)
    own: Sequence[Rendered] = ()
    resources: dict[str, KernelResources] = field(default_factory=dict)

    @cached_property
    def memory(self) -> MemoryProfile:
        """Who is in the arena, and when."""
        return memory_profile(self.buffers)

    @property
    def over_budget(self) -> int:
        """Bytes alive at one time beyond the budget of memory; 0 where that is kept, or there is none."""
        if self.options.memory is None:
            return 0
        budget = bytes_of(self.options.memory, self.planned.unlimited or self.planned)
        return max(0, self.executable.live_bytes - most(budget))

    @cached_property
    def curve(self) -> MemoryCurve:
        """What budgets of memory would cost; takes seconds for a large region."""
        return memory_curve(self.planned.unlimited or self.planned, self.options)


def passes(device: DeviceSpec, reuse: Reuse = Reuse.MERGED, aligned: bool = True,
           matmuls: Stitching = Stitching.NONE) -> tuple[Pass[TensorGraph], ...]:
    """Tensor passes of the device's target, in order.

    Args:
        matmuls: which become kernels of ours.
    """
    times = PatternCompiler(device, aligned, LARGE)
    return target_of(device).passes(PassContext(device, times, times.libraries, reuse, aligned,
                                               matmuls is not Stitching.NONE))


def compile_region(graph: TensorGraph, inputs: tuple[str, ...], variables: tuple[str, ...],
                   options: CompileOptions, instrument: Instrument[TensorGraph] | None = None,
                   plan_instrument: Instrument[KernelPlan] | None = None) -> CompiledRegion:
    """Compiles a static graph down to source.

    Args:
        inputs, variables: keys and handles in the order in which the op gets them.
        instrument, plan_instrument: what to do around every tensor pass and every plan pass.

    Raises:
        ScheduleError: a node that no kernel family takes.
    """
    start = time.perf_counter()
    return _assembled(planned_kernels(graph, inputs, variables, options, instrument, plan_instrument), options, start)


def compile_plan(plan: StitchPlan, inputs: tuple[str, ...], variables: tuple[str, ...], options: CompileOptions
                 ) -> CompiledRegion:
    """As compile_region, for a graph with sizes that change whose plan is known."""
    start = time.perf_counter()
    compiler = PatternCompiler(options.device, options.aligned, reuse=options.reuse, templates=options.templates)
    kernels = run_passes(KernelPlan(plan, inputs, variables), passes_for_known_plan(compiler, options))
    return _assembled(kernels, options, start)


def planned_kernels(graph: TensorGraph, inputs: tuple[str, ...], variables: tuple[str, ...], options: CompileOptions,
                    instrument: Instrument[TensorGraph] | None = None,
                    plan_instrument: Instrument[KernelPlan] | None = None) -> KernelPlan:
    """Compiles a static graph down to kernels and library calls whose values have places. Arguments and errors are
    those of compile_region."""
    graph = run_passes(graph, passes(options.device, options.reuse, options.aligned, options.plan.matmuls),
                       instrument)
    verify_graph(graph, static=True)
    footprint = footprint_of(graph)
    compiler = PatternCompiler(options.device, options.aligned, footprint, options.measured, options.reuse,
                               options.templates)
    plan = _planned(graph, compiler, options)
    return run_passes(KernelPlan(plan, inputs, variables), plan_passes(compiler, options, footprint), plan_instrument)


def _assembled(kernels: KernelPlan, options: CompileOptions, start: float) -> CompiledRegion:
    """Args:
        start: when compiling began, in seconds.
    """
    planned, plan, buffers = time.perf_counter(), kernels.plan, kernels.buffers
    outputs = tuple(TensorType(n.type.dtype, tuple(int(d) for d in n.type.dims)) for _, n in plan.graph.outputs
                    if n.kind is not OpKind.ASSIGN)
    made = assemble(buffers, options.device, for_all_sizes=options.plans is not None, fusions=_fusions(options))
    executable = Executable(kernels.inputs, kernels.variables, outputs, tuple(buffers.state), buffers.arena,
                            (*made.steps, *buffers.copies), None, made.after, buffers.live_bytes, tuple(made.nodes),
                            tuple(buffers.updated))
    seconds = {"plan": planned - start, "emit": time.perf_counter() - planned}
    launched = tuple(w for w in buffers.kernels if isinstance(w, LoweredKernel))
    calls = tuple(w for w in buffers.kernels if isinstance(w, BoundCall))
    return CompiledRegion(executable, made.source, made.programs, plan, buffers, launched, made.launches, seconds,
                          kernels, options, calls, made.rendered, made.own)


def _fusions(options: CompileOptions) -> Fusions | None:
    measured = options.fusions
    if measured is None:
        return None
    return lambda buffers, groups: fused_launches(
        Launches(buffers.kernels, buffers.levels, groups, options.device, options.aligned), measured)


def _planned(graph: TensorGraph, compiler: PatternCompiler, options: CompileOptions) -> StitchPlan:
    """A plan of another size or an earlier process serves where there is one."""
    plan, lacking = None, list[PlanMemory | StoredPlans]()
    for memory in (options.plans, options.stored):
        if plan is None and memory is not None:
            plan = memory.recall(graph, compiler.libraries)
            lacking += [memory] if plan is None else []
    if plan is None:
        plan = plan_region(graph, compiler, compiler.libraries, options.plan)
        if options.patterns is not None:
            plan = limit_patterns(plan, options.patterns)
    for memory in lacking:
        memory.keep(plan)
    return plan


def footprint_of(graph: TensorGraph) -> int:
    """Bytes that come into a region and go out."""
    sources = (OpKind.INPUT, OpKind.VARIABLE)
    ends = {*(n for n in graph.nodes() if n.kind in sources), *(n for _, n in graph.outputs)}
    return sum(int(n.type.nbytes) for n in ends)
