"""Kernels by template: the one that a template asks for, and all that a pattern may have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tf_stitch.compiler.apply_template import apply_template
from tf_stitch.compiler.template_candidates import candidates
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import lower
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.occupancy import fits_registers
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.schedule.kernel_schedule import Origin
from tf_stitch.templates import Template


def templated(template: Template, kernel: LoweredKernel, device: DeviceSpec, aligned: bool,
              origin: Origin = Origin.FORCED) -> LoweredKernel:
    """The kernel's pattern by a template.

    Args:
        kernel: by the families alone.

    Raises:
        ScheduleError: the pattern cannot have it.
    """
    schedule = apply_template(template, kernel.schedule, device, aligned)
    found = lower(replace(schedule, origin=origin))
    if found.shared_bytes > device.shared_bytes:
        raise ScheduleError("the template takes more shared memory than a block has", schedule.dominant.loc)
    return found


def possible_kernels(kernel: LoweredKernel, device: DeviceSpec, aligned: bool) -> Iterator[LoweredKernel]:
    """Distinct kernels of a pattern, the families' own first; of the others those alone whose registers suffice."""
    seen: set[Program] = {kernel.program}
    yield kernel
    for template in candidates(kernel.schedule, device):
        try:
            found = templated(template, kernel, device, aligned, Origin.TUNED)
        except ScheduleError:
            continue  # Algorithm 3: planning failed, the next template
        if found.program in seen or not fits_registers(found.program, device):
            continue
        verify_program(found.program)
        seen.add(found.program)
        yield found
