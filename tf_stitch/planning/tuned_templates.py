"""Templates that were the fastest of those tried for a pattern (FusionStitching section 5.3), kept by device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tf_stitch.planning.device_records import DeviceRecords
from tf_stitch.planning.measured_cost import as_time


@dataclass(frozen=True)
class TunedTemplate:
    """What tuning a pattern found.

    Attributes:
        default: the template that the families chose then; if they choose another today, the record is out of date.
        best: the fastest; the default where nothing else was faster for sure.
        default_us, best_us: their times.
        tried: templates that were timed, of `possible`.
    """

    default: str
    best: str
    default_us: float
    best_us: float
    tried: int
    possible: int


class TunedTemplates(DeviceRecords[TunedTemplate]):
    """By `measurement_key`."""

    what = "tuned templates"

    def decode(self, value: Any) -> TunedTemplate:
        found = TunedTemplate(**value)
        as_time(found.default_us), as_time(found.best_us)
        if not isinstance(found.default, str) or not isinstance(found.best, str):
            raise TypeError("a template is a text")
        return found

    def encode(self, record: TunedTemplate) -> Any:
        return asdict(record)
