"""The table of contents: how a static region becomes an executable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tf_stitch.compiler.aligned_matmuls import matmuls_to_pad
from tf_stitch.compiler.assembly import Fusions, assemble
from tf_stitch.compiler.cooperative_fusion import fuse_cooperatively
from tf_stitch.compiler.depthwise_convolutions import faster_as_sum, of_few_channels
from tf_stitch.compiler.float8_matmuls import matmuls_of_float8
from tf_stitch.compiler.horizontal_fusion import Launches, fused_launches
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.private_values import with_private_values
from tf_stitch.compiler.reverse_block_order import reverse_block_order
from tf_stitch.compiler.row_updates import with_row_updates
from tf_stitch.compiler.scaled_filters import scales_to_move
from tf_stitch.compiler.skinny_matmuls import matmuls_to_multiply, matmuls_to_sum
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Rendered
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import TensorType
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.libraries.call import BoundCall, FusedNodes, Library
from tf_stitch.libraries.registry import library_of
from tf_stitch.lowering.kernel import LoweredKernel, with_bounded_sums
from tf_stitch.pass_manager import Instrument, Pass, run_passes
from tf_stitch.planning.attention_calls import attentions_to_call
from tf_stitch.planning.attention_choice import attention_copies
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.limited_patterns import limit_patterns
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.measured_fusions import MeasuredFusions
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.planning.planner import PlanOptions, plan_region
from tf_stitch.planning.stitch_plan import (
    Pattern,
    StitchPlan,
    between,
    is_library_call,
)
from tf_stitch.runtime.buffer_plan import BufferPlan, Work, plan_buffers
from tf_stitch.runtime.executable import Executable
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.runtime.stored_plans import StoredPlans
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.targets.registry import target_of
from tf_stitch.targets.target import LARGE, PassOptions


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
    """

    executable: Executable
    source: str
    programs: dict[str, tuple[Program, ...]]
    plan: StitchPlan
    buffers: BufferPlan
    kernels: tuple[LoweredKernel, ...]
    launches: tuple[str, ...]
    seconds: dict[str, float]
    calls: tuple[BoundCall, ...] = ()
    rendered: Mapping[str, Rendered] = field(default_factory=dict)
    own: Sequence[Rendered] = ()
    resources: dict[str, KernelResources] = field(default_factory=dict)


def passes(device: DeviceSpec, reuse: Reuse = Reuse.MERGED, aligned: bool = True) -> tuple[Pass[TensorGraph], ...]:
    """Tensor passes of the device's target, in order."""
    times = PatternCompiler(device, aligned, LARGE)
    target = target_of(device)
    options = PassOptions(reuse, partial(matmuls_to_sum, times=times),
                          partial(faster_as_sum, libraries=target.libraries, profile=device.profile), of_few_channels,
                          partial(matmuls_to_multiply, times=times), partial(matmuls_to_pad, times=times),
                          partial(attention_copies, times=times),
                          partial(attentions_to_call, device=device, times=times),
                          partial(matmuls_of_float8, device=device, aligned=aligned, times=times),
                          partial(scales_to_move, libraries=times.libraries, times=times))
    return target.passes(device, options)


def compile_region(graph: TensorGraph, inputs: tuple[str, ...], variables: tuple[str, ...],
                   options: CompileOptions, instrument: Instrument[TensorGraph] | None = None) -> CompiledRegion:
    """Compiles a static graph down to source.

    Args:
        inputs, variables: keys and handles in the order in which the op gets them.

    Raises:
        ScheduleError: a node that no kernel family takes.
    """
    start = time.perf_counter()
    plan, buffers = plan_and_place(graph, inputs, variables, options, instrument)
    return _assembled(plan, buffers, inputs, variables, options, start)


def compile_plan(plan: StitchPlan, inputs: tuple[str, ...], variables: tuple[str, ...], options: CompileOptions
                 ) -> CompiledRegion:
    """As compile_region, for a graph with sizes that change whose plan is known."""
    start = time.perf_counter()
    compiler = PatternCompiler(options.device, options.aligned, reuse=options.reuse, templates=options.templates)
    buffers = _buffers(plan, _work(plan, compiler), inputs, variables, options)
    return _assembled(plan, buffers, inputs, variables, options, start)


def _assembled(plan: StitchPlan, buffers: BufferPlan, inputs: tuple[str, ...], variables: tuple[str, ...],
               options: CompileOptions, start: float) -> CompiledRegion:
    """Args:
        start: when compiling began, in seconds.
    """
    planned = time.perf_counter()
    outputs = tuple(TensorType(n.type.dtype, tuple(int(d) for d in n.type.dims)) for _, n in plan.graph.outputs
                    if n.kind is not OpKind.ASSIGN)
    made = assemble(buffers, options.device, for_all_sizes=options.plans is not None, fusions=_fusions(options))
    executable = Executable(inputs, variables, outputs, tuple(buffers.state), buffers.arena,
                            (*made.steps, *buffers.copies), None, made.after, buffers.live_bytes, tuple(made.nodes),
                            tuple(buffers.updated))
    seconds = {"plan": planned - start, "emit": time.perf_counter() - planned}
    kernels = tuple(w for w in buffers.kernels if isinstance(w, LoweredKernel))
    calls = tuple(w for w in buffers.kernels if isinstance(w, BoundCall))
    return CompiledRegion(executable, made.source, made.programs, plan, buffers, kernels, made.launches, seconds, calls,
                          made.rendered, made.own)


def _fusions(options: CompileOptions) -> Fusions | None:
    measured = options.fusions
    if measured is None:
        return None
    return lambda buffers, groups: fused_launches(
        Launches(buffers.kernels, buffers.rounds, groups, options.device, options.aligned), measured)


def plan_and_place(graph: TensorGraph, inputs: tuple[str, ...], variables: tuple[str, ...], options: CompileOptions,
                   instrument: Instrument[TensorGraph] | None = None) -> tuple[StitchPlan, BufferPlan]:
    """Compiles a static graph down to kernels and library calls. Arguments and errors are those of compile_region."""
    graph = run_passes(graph, passes(options.device, options.reuse, options.aligned), instrument)
    verify_graph(graph, static=True)
    compiler = PatternCompiler(options.device, options.aligned, _footprint(graph), options.measured,
                               options.reuse, options.templates)
    plan = _planned(graph, compiler, options)
    buffers = _placed(plan, compiler, inputs, variables, options)
    if not options.device.simt or options.plans is not None or options.patterns is not None:
        return plan, buffers
    merged = with_row_updates(plan, buffers, compiler.exact,
                              lambda kernel: predict_us(kernel.program, options.device, _footprint(graph)))
    if merged is plan:
        return plan, buffers
    try:
        return merged, _placed(merged, compiler, inputs, variables, options)
    except ScheduleError:  # in another order the tensors would be copied
        return plan, buffers


def _placed(plan: StitchPlan, compiler: PatternCompiler, inputs: tuple[str, ...], variables: tuple[str, ...],
            options: CompileOptions) -> BufferPlan:
    return _buffers(plan, _final_work(plan, compiler, options), inputs, variables, options)


def _buffers(plan: StitchPlan, work: Sequence[Work], inputs: tuple[str, ...], variables: tuple[str, ...],
             options: CompileOptions) -> BufferPlan:
    """Buffers of a plan's kernels and calls."""
    bounded = [with_bounded_sums(one) if isinstance(one, LoweredKernel) else one for one in work]
    return plan_buffers(plan.graph, bounded, inputs, variables, packed=options.device.queued)


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
    if options.device.simt and options.reuse is not Reuse.MAPPING and options.patterns is None:
        plan = with_private_values(plan, compiler.exact)
    return plan


def _final_work(plan: StitchPlan, compiler: PatternCompiler, options: CompileOptions) -> list[Work]:
    """The kernels and library calls of a plan."""
    work = _work(plan, compiler)
    if options.plans is not None:
        return work  # kernels for all sizes: how many blocks are resident is not known of them
    if options.device.grid_barrier and options.plan.barriers and options.reuse is not Reuse.MAPPING:
        work = fuse_cooperatively(plan, work, options.device, _footprint(plan.graph))
    # After cooperative fusion, which predicts times: what tuning found has measured ones.
    work = [compiler.tuned(one) if isinstance(one, LoweredKernel) else one for one in work]
    return reverse_block_order(work, options.device) if options.device.simt else work


def _footprint(graph: TensorGraph) -> int:
    """Bytes that come in and go out."""
    sources = (OpKind.INPUT, OpKind.VARIABLE)
    ends = {*(n for n in graph.nodes() if n.kind in sources), *(n for _, n in graph.outputs)}
    return sum(int(n.type.nbytes) for n in ends)


def _work(plan: StitchPlan, compiler: PatternCompiler) -> list[Work]:
    """The kernels and library calls of a plan, in order. A pattern that was planned for another size, and turns out
    to be no kernel and no call, is split into its nodes.

    Raises:
        ScheduleError: a node that no kernel family takes.
    """
    made: dict[Pattern, LoweredKernel | _Call] = {}
    for pattern in list(plan.patterns):
        try:
            made[pattern] = _kernel_or_call(pattern, compiler)
        except ScheduleError:
            if len(pattern.nodes) == 1:
                raise
            made |= {single: _kernel_or_call(single, compiler) for single in plan.split(pattern)}
    stored = {n for p in plan.patterns for n in p.outputs}
    works = (made[p] for p in plan.patterns)
    return [work.library.bind(work.fused, stored) if isinstance(work, _Call) else work for work in works]


@dataclass(frozen=True)
class _Call:
    """A call before it is known which values lie in memory."""

    library: Library
    fused: FusedNodes


def _kernel_or_call(pattern: Pattern, compiler: PatternCompiler) -> LoweredKernel | _Call:
    library = library_of(pattern.nodes[0], compiler.libraries)
    if library is None or not is_library_call(pattern, compiler.libraries):
        return compiler.kernel(pattern)
    fused = library.match(between(pattern))
    if fused is None:
        raise ScheduleError("more than a library call computes", pattern.nodes[0].loc)
    return _Call(library, fused)
