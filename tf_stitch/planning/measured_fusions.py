"""Kernels that were measured in shared blocks and in launches of their own (HFuse), kept by device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tf_stitch.planning.device_records import DeviceRecords
from tf_stitch.planning.measured_cost import as_time, saves


@dataclass(frozen=True)
class MeasuredFusion:
    """What measuring two kernels, or more, found.

    Attributes:
        kernels: their templates then; if they have others today, the record is out of date.
        threads: of each in a block, of the fastest partition.
        resident: blocks of it that a processor is to hold; 0: the compiler's choice.
        apart_us: of a launch for each, the faster of one behind the other and at one time.
        together_us: of that partition.
        tried: partitions that were timed.
    """

    kernels: tuple[str, ...]
    threads: tuple[int, ...]
    resident: int
    apart_us: float
    together_us: float
    tried: int

    @property
    def saved_us(self) -> float:
        return self.apart_us - self.together_us

    @property
    def is_faster(self) -> bool:
        """Whether one launch is faster for sure."""
        return saves(self.apart_us, self.together_us)

    @property
    def text(self) -> str:
        """For people."""
        return (f"{self.apart_us} us in {len(self.kernels)} launches, {self.together_us} us in blocks of "
                f"{' + '.join(map(str, self.threads))} threads")


class MeasuredFusions(DeviceRecords[MeasuredFusion]):
    """By horizontal_fusion.Launches.key."""

    what = "measured fusions"

    def decode(self, value: Any) -> MeasuredFusion:
        found = MeasuredFusion(**{**value, "kernels": tuple(value["kernels"]), "threads": tuple(value["threads"])})
        as_time(found.apart_us), as_time(found.together_us)
        if not 2 <= len(found.kernels) == len(found.threads) or not all(isinstance(k, str) for k in found.kernels):
            raise TypeError("kernels that share blocks are two or more")
        if not all(isinstance(n, int) for n in (*found.threads, found.resident)):
            raise TypeError("threads and blocks are numbers")
        return found

    def encode(self, record: MeasuredFusion) -> Any:
        return asdict(record)
