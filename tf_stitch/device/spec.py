"""What schedules and costs need to know of a device: plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device.profile import DeviceProfile, shipped_profile

ASYNC_COPY_BYTES = 16
"""What a thread copies at a time to shared memory beside other work."""
ASYNC_COPY_ARCHITECTURE = 80
"""Compute capability from which it can."""
CLUSTER_ARCHITECTURE, LARGEST_CLUSTER = 90, 8
"""Compute capability from which blocks can be launched in clusters, and their blocks at most, on every such device."""


@dataclass(frozen=True)
class DeviceSpec:
    """A device.

    Attributes:
        target: "cuda" or "cpu".
        processors: streaming multiprocessors, or cores.
        profile: what it was measured to do; predicted times come from there.
        shared_bytes: shared memory one block may use.
        row_buffer_bytes: CPU: a row up to this size is staged on the stack.
        architecture: compute capability ("90"), or the C compiler's -march.
        tf32: products of float32 may be taken in TF32.
        warp: threads that run in step and reduce by shuffles; 1: each thread for itself.
    """

    name: str
    target: str
    processors: int
    profile: DeviceProfile
    shared_bytes: int = 0
    row_buffer_bytes: int = 0
    architecture: str = ""
    tf32: bool = False
    warp: int = 1

    @property
    def is_gpu(self) -> bool:
        return self.target == "cuda"

    @property
    def fetches(self) -> bool:
        """Whether threads can copy to shared memory beside other work."""
        return self.is_gpu and int(self.architecture) >= ASYNC_COPY_ARCHITECTURE

    @property
    def largest_cluster(self) -> int:
        """Blocks that may be launched as a cluster; 1: it has none."""
        return LARGEST_CLUSTER if self.is_gpu and int(self.architecture) >= CLUSTER_ARCHITECTURE else 1


def gpu_spec(profile: DeviceProfile, architecture: str) -> DeviceSpec:
    """A GPU of that profile and compute capability."""
    return DeviceSpec(profile.name, "cuda", profile.processors, profile, shared_bytes=profile.shared_bytes,
                      architecture=architecture, tf32=True, warp=32)


def cpu_spec(profile: DeviceProfile, cores: int) -> DeviceSpec:
    """A CPU of which `cores` may be used."""
    return DeviceSpec("cpu", "cpu", cores, profile, row_buffer_bytes=1 << 16, architecture="native")


H200 = gpu_spec(shipped_profile("h200"), "90")
"""One NVIDIA H200."""

CPU = cpu_spec(shipped_profile("cpu"), 2)
"""A two-core x86-64 machine."""
