"""Each pattern of a plan becomes a kernel or a library call."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.errors import ScheduleError
from tf_stitch.libraries.call import FusedNodes, Library
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pass_manager import PassResult
from tf_stitch.placement.buffer_plan import Work
from tf_stitch.planning.pattern import Pattern, between
from tf_stitch.planning.pattern_kind import kind_of
from tf_stitch.planning.stitch_plan import StitchPlan


@dataclass(frozen=True)
class MakeKernels:
    """Schedules and lowers patterns, and binds library calls.

    Raises:
        ScheduleError: a node that no kernel family takes.
    """

    compiler: PatternCompiler
    name: str = "make_kernels"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        return PassResult(replace(kernels, work=tuple(work_of(kernels.plan, self.compiler))), modified=True)


@dataclass(frozen=True)
class TunedTemplates:
    """Gives kernels the templates that tuning measured to be faster. After passes that predict times."""

    compiler: PatternCompiler
    name: str = "tuned_templates"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        work = tuple(self.compiler.tuned(one) if isinstance(one, LoweredKernel) else one for one in kernels.work)
        return PassResult(replace(kernels, work=work), modified=work != kernels.work)


def work_of(plan: StitchPlan, compiler: PatternCompiler) -> list[Work]:
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
    library = kind_of(pattern, compiler.libraries)
    if not isinstance(library, Library):
        return compiler.kernel(pattern)
    fused = library.match(between(pattern))
    if fused is None:
        raise ScheduleError("more than a library call computes", pattern.nodes[0].loc)
    return _Call(library, fused)
