"""Which template a pattern of the plan gets: one that the user forces, one that tuning found, or the families' own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tf_stitch.compiler.template_kernels import templated
from tf_stitch.compiler.tilings import template_of
from tf_stitch.config import ForcedTemplate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError, TemplateError
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.measured_cost import measurement_key
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.schedule.kernel_schedule import Origin
from tf_stitch.templates import Template, parse_template


def _ignore(where: str, reason: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class TemplateChoice:
    """Templates for the kernels of one device.

    Attributes:
        forced: the first whose glob matches the name of one of a kernel's nodes goes before all others.
        tuned: what earlier tuning found.
        refused: is told of a kernel, by the user's names, and why it cannot have the template chosen for it.
    """

    device: DeviceSpec
    aligned: bool
    forced: tuple[ForcedTemplate, ...] = ()
    tuned: TunedTemplates | None = None
    refused: Callable[[str, str], None] = field(default=_ignore, compare=False)

    def forced_kernel(self, default: LoweredKernel) -> LoweredKernel:
        """The kernel by the template that is forced on it, else `default`, which is the family's."""
        forced = self._forced(default)
        return default if forced is None else self._by(forced.template, default, Origin.FORCED)

    def tuned_kernel(self, default: LoweredKernel) -> LoweredKernel:
        """The kernel by the template that tuning found for its pattern, else `default`."""
        domain = default.schedule.domain
        if not self.tuned or any(isinstance(n, SymbolicDim) for n in (domain.rows, domain.cols)):
            return default
        found = self.tuned.get(measurement_key(default.schedule.pattern, self.aligned))
        if found is None or found.best == found.default or found.default != str(template_of(default.schedule)):
            return default
        try:
            template = parse_template(found.best)
        except TemplateError as error:
            self.refused(default.program.title, str(error))
            return default
        return self._by(template, default, Origin.TUNED)

    def _by(self, template: Template, default: LoweredKernel, origin: Origin) -> LoweredKernel:
        try:
            return templated(template, default, self.device, self.aligned, origin)
        except ScheduleError as error:
            self.refused(default.program.title, str(error))
            return default

    def _forced(self, kernel: LoweredKernel) -> ForcedTemplate | None:
        names = {n.loc.node for n in kernel.schedule.pattern.nodes}
        return next((f for f in self.forced if any(fnmatchcase(name, f.nodes) for name in names)), None)
