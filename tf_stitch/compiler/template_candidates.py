"""Templates that a pattern may have (FusionStitching, Algorithm 3: TemplatesGeneration): its family says which."""

from __future__ import annotations

from collections.abc import Iterator

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.registry import family_of
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.templates import Template, parse_template


def candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[Template]:
    """Templates for a schedule's pattern; some of them turn out to be impossible when they are applied. Cooperative
    kernels have none."""
    if not schedule.groups:
        texts = family_of(schedule).tilings(schedule).candidates(schedule, device)
        yield from map(parse_template, dict.fromkeys(texts))
