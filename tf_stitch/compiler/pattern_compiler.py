"""From a pattern to its kernel, and to the times the planner chooses by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.compiler.compile_pattern import compile_pattern, first_schedule
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.text_format import structural_key
from tf_stitch.libraries.call import Library
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.lowering.rebind import rebind, structure
from tf_stitch.passes.inline_small_matmuls import Expanded, inline_small_matmuls
from tf_stitch.planning.cost_model import ModelCost, TimeOf
from tf_stitch.planning.estimate import call_us, estimate_us, scattered_ns
from tf_stitch.planning.matmul_sizes import is_small_matmul
from tf_stitch.planning.measured_cost import MeasuredCost, MeasuredTimes
from tf_stitch.planning.pattern import Pattern, between
from tf_stitch.planning.pattern_kind import Loops, kind_of
from tf_stitch.schedule.kernel_schedule import Origin
from tf_stitch.schedule.reuse import Reuse, require_reuse
from tf_stitch.targets.registry import target_of

MOST_COPIES = 255
"""Of an op in front of small matmuls that follow each other. With two of sixteen terms, as the steps of a small LSTM
are, planning took minutes."""


class PatternCompiler:
    """Schedules and lowers patterns, each structure once.

    Args:
        aligned: every buffer starts at a multiple of 16 bytes.
        footprint: bytes that a run of the whole region reads and writes (see ModelCost).
        measured: times of patterns that were measured before; they beat the model's.
        reuse: how far a kernel may reuse values.
        templates: which template a kernel of the plan gets; None: the families' own. The planner's times are those of
            the families' kernels, so that a plan does not change with them.

    Attributes:
        libraries: of the device's target.
        least_us: of a launch.
        profile: of the device.
    """

    def __init__(self, device: DeviceSpec, aligned: bool, footprint: int = 0,
                 measured: MeasuredTimes | None = None, reuse: Reuse = Reuse.MERGED,
                 templates: TemplateChoice | None = None) -> None:
        self.libraries = tuple(library.on(device) for library in target_of(device).libraries)
        self.least_us = device.profile.launch_us
        self.profile = device.profile
        self._device, self._aligned, self._reuse, self._templates = device, aligned, reuse, templates
        self._times: dict[str, float | None] = {}
        self._estimates: dict[str, float | None] = {}
        self._kernels: dict[str, tuple[LoweredKernel, list[Node]]] = {}
        self._outputs: dict[Pattern, dict[Node, Node]] = {}  # those before matmuls were inlined, by pattern
        self._expanded: Expanded = {}
        self._cost: TimeOf = ModelCost(lambda pattern: self.compile(pattern).program, device, footprint)
        if measured is not None:
            self._cost = MeasuredCost(self._cost, measured, aligned, 0.0 if device.queued else device.profile.launch_us)

    def compile(self, pattern: Pattern) -> LoweredKernel:
        """The first schedule of the first family that can be lowered. Small matmuls in the pattern are inlined.

        Raises:
            ScheduleError: none; the message holds every family's reason.
        """
        require_reuse(pattern, self._reuse)
        written, outputs_before = self._without_matmuls(pattern)
        return _with_outputs(self._lowered(written), outputs_before)

    def kernel(self, pattern: Pattern) -> LoweredKernel:
        """As compile, by the template that is forced on the pattern, if any."""
        if self._templates is None:
            return self.compile(pattern)
        require_reuse(pattern, self._reuse)
        written, outputs_before = self._without_matmuls(pattern)
        self._outputs[written] = outputs_before
        return _with_outputs(self._templates.forced_kernel(self._lowered(written)), outputs_before)

    def tuned(self, kernel: LoweredKernel) -> LoweredKernel:
        """One of this compiler's kernels by the template that tuning found for its pattern, if any. One that was fused
        stays: tuning times kernels alone."""
        pattern = kernel.schedule.pattern
        if self._templates is None or not self._templates.tuned or kernel.schedule.origin is not Origin.RULE \
                or pattern not in self._outputs:
            return kernel
        default = self._lowered(pattern)
        found = self._templates.tuned_kernel(default)
        return kernel if found is default else _with_outputs(found, self._outputs[pattern])

    def _lowered(self, pattern: Pattern) -> LoweredKernel:
        key, nodes = structure(pattern)
        if key in self._kernels:
            known, its_nodes = self._kernels[key]
            return rebind(known, its_nodes, nodes, pattern)
        kernel = compile_pattern(pattern, self._device, self._aligned)
        self._kernels[key] = kernel, nodes
        return kernel

    def estimate(self, pattern: Pattern) -> float | None:
        """A first guess of the microseconds of a pattern, None if no family proposes a schedule. A matmul alone is a
        library call."""
        if isinstance(kind_of(pattern, self.libraries), Library):
            return call_us(pattern, self.libraries, self._device)
        key = structural_key(pattern.nodes, pattern.outputs)
        if key not in self._estimates:
            self._estimates[key] = self._estimated(pattern)
        return self._estimates[key]

    def _estimated(self, pattern: Pattern) -> float | None:
        try:
            require_reuse(pattern, self._reuse)
            written, _ = self._without_matmuls(pattern)
        except ScheduleError:
            return None
        schedule = first_schedule(written, self._device, self._aligned)
        if schedule is None:
            return None
        return estimate_us(written, self._device, schedule.mapping.grid, schedule.mapping.threads,
                           scattered_ns(pattern, self._device))

    def exact(self, pattern: Pattern) -> float | None:
        """Microseconds of a pattern as one kernel, measured or predicted; None if it cannot be one."""
        if isinstance(kind_of(pattern, self.libraries), Library):
            return call_us(pattern, self.libraries, self._device)
        key = structural_key(pattern.nodes, pattern.outputs)
        if key not in self._times:
            self._times[key] = self._cost(pattern)
        return self._times[key]

    def _without_matmuls(self, pattern: Pattern) -> tuple[Pattern, dict[Node, Node]]:
        """The pattern with its matmuls inlined, and what its outputs were before.

        Raises:
            ScheduleError: a matmul too large for that, or what libraries alone compute.
        """
        for node in pattern.nodes:
            if node.category in (Category.CONVOLUTION, Category.FLOAT8_CONTRACTION, Category.ATTENTION):
                raise ScheduleError(f"{node.kind.value} is a library call of its own", node.loc)
        matmuls = [n for n in pattern.nodes if n.category is Category.CONTRACTION]
        if not matmuls or not isinstance(kind_of(pattern, self.libraries), Loops | Library):
            return pattern, {}
        for matmul in matmuls:
            if not is_small_matmul(matmul):
                raise ScheduleError("a matmul is a library call of its own", matmul.loc)
        nodes_between = between(pattern)
        _require_short_chains(nodes_between)
        new = inline_small_matmuls(nodes_between, self._expanded)
        members = set(pattern.nodes)  # a free node that is live-out is one, too
        nodes = tuple([made for n in nodes_between if n in members for made in new[n]])
        rebuilt = {new[n][-1] for n in nodes_between if n not in members}
        outputs_before = {new[n][-1]: n for n in pattern.outputs}
        return Pattern(nodes, tuple(outputs_before), pattern.free | rebuilt), outputs_before


def _with_outputs(kernel: LoweredKernel, outputs_before: dict[Node, Node]) -> LoweredKernel:
    """The kernel with the outputs of the pattern before its matmuls were inlined."""
    if not outputs_before:
        return kernel
    return replace(kernel, arguments=tuple((outputs_before.get(n, n), mode) for n, mode in kernel.arguments))


def _require_short_chains(nodes: Sequence[Node]) -> None:
    """Raises ScheduleError for matmuls whose operands come of matmuls, where that multiplies: each term computes what
    it takes again, and the kernel of an unrolled loop would grow with a power of its steps."""
    copies: dict[Node, int] = {}
    for node in nodes:
        copies[node] = max((copies.get(o, 1) for o in node.operands), default=1)
        if node.category is Category.CONTRACTION:
            copies[node] *= min(terms_of(node), node.type.dims[-1])
            if copies[node] > MOST_COPIES:
                raise ScheduleError("small matmuls of what small matmuls give", node.loc)
