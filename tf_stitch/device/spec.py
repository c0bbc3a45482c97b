"""What schedules and costs need to know of a device: plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceSpec:
    """A device.

    Attributes:
        target: "cuda" or "cpu".
        processors: streaming multiprocessors, or cores.
        launch_us: cost of one kernel launch, in microseconds.
        bandwidth_gbps: memory bandwidth of large kernels, in 10^9 bytes a second.
        saturation_bytes: bytes at which a kernel reaches half of that bandwidth.
        cycles_per_us: rough ALU cycles a lane does in a microsecond, times lanes: the compute roof.
        shared_bytes: shared memory one block may use.
        row_buffer_bytes: CPU: a row up to this size is staged on the stack.
        architecture: compute capability ("90"), or the C compiler's -march.
    """

    name: str
    target: str
    processors: int
    launch_us: float
    bandwidth_gbps: float
    saturation_bytes: float
    cycles_per_us: float
    shared_bytes: int = 0
    row_buffer_bytes: int = 0
    architecture: str = ""

    @property
    def is_gpu(self) -> bool:
        return self.target == "cuda"


H200 = DeviceSpec(name="H200", target="cuda", processors=132, launch_us=2.5, bandwidth_gbps=4160,
                  saturation_bytes=4e6, cycles_per_us=2.0e7, shared_bytes=227 * 1024, architecture="90")
"""One NVIDIA H200; bandwidth and launch cost as measured in the project's probes."""

CPU = DeviceSpec(name="cpu", target="cpu", processors=2, launch_us=0.4, bandwidth_gbps=12,
                 saturation_bytes=1e4, cycles_per_us=5.0e3, row_buffer_bytes=1 << 16, architecture="native")
"""A two-core x86-64 machine."""
