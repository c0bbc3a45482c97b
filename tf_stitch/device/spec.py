"""What schedules and costs need to know of a device: plain numbers, and what it can do."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device.profile import DeviceProfile, shipped_profile

ASYNC_COPY_BYTES = 16
"""What a thread copies at a time to shared memory beside other work."""
ASYNC_COPY_ARCHITECTURE = 80
"""Compute capability from which it can, and from which mma.sync takes TF32 and bfloat16, too."""
CLUSTER_ARCHITECTURE, LARGEST_CLUSTER = 90, 8
"""Compute capability from which blocks can be launched in clusters, and their blocks at most, on every such device."""
FLOAT8_ARCHITECTURE = 89
"""Compute capability from which tensor cores multiply float8."""
WARPGROUP_ARCHITECTURE = "90"
"""Compute capability of devices whose warpgroups multiply from shared memory (PTX ISA, wgmma: sm_90a alone)."""
EARLY_START_ARCHITECTURE = 90
"""Compute capability from which CUDA graphs have programmatic edges (griddepcontrol, PTX ISA)."""
RESIDENT = {"75": (1024, 16), "86": (1536, 16), "87": (1536, 16), "89": (1536, 24), "110": (1536, 24),
            "120": (1536, 24), "121": (1536, 24)}
"""Compute capability -> threads and blocks that a processor holds at once (CUDA C++ Programming Guide, technical
specifications); others hold MOST_RESIDENT."""
MOST_RESIDENT = 2048, 32
BLOCK_BARRIERS = 16
"""On every such device (PTX ISA, bar.sync)."""


@dataclass(frozen=True)
class DeviceSpec:
    """A device. What it cannot do is False, 0 or 1.

    Attributes:
        target: names its Target (see targets.registry).
        processors: streaming multiprocessors, or cores.
        profile: what it was measured to do; predicted times come from there.
        shared_bytes: shared memory one block may use.
        row_buffer_bytes: a row up to this size is staged on the stack, where blocks have no shared memory.
        architecture: what its compiler is told: compute capability ("90"), or the C compiler's -march.
        tf32: matmuls of float32 may be taken in TF32.
        simt: a kernel is a grid of blocks of many threads; else tasks of one thread each.
        warp: threads that run in step and reduce by shuffles.
        registers: of a processor, 32 bits each, dealt out to its threads before a kernel runs.
        resident_threads, resident_blocks: that a processor holds at once.
        queued: kernels, library calls and copies wait in a queue. Those that need nothing of each other run at the same
            time, kernels in one launch; and each launch is part of the time that is measured.
        stages_loads: what a thread loaded is worth keeping until it needs it again: the cache beside it has no room
            for what all its neighbours load.
        vector_accesses: a thread loads and stores several elements by one instruction that is written so.
        grid_barrier: the blocks of a launch can wait for each other.
        largest_cluster: blocks that may be launched as a cluster, at most.
        block_barriers: barriers of a block, at each of which any of its warps may wait; 1: all threads wait at one.
        early_starts: a kernel of a graph of launches is started before those that it depends on have ended, and awaits
            them itself.
        async_copies: threads can copy to shared memory beside other work.
        tensor_cores: warps multiply tiles of matrices (mma.sync, of TF32 and bfloat16, too).
        warpgroup_matmuls: four warps together multiply half types from shared memory (wgmma).
        float8_matmuls: a library multiplies float8 on tensor cores.
        convolution_epilogues: a library has convolutions that compute what follows them.
        fused_attention: a library has fused kernels of attentions and their gradients, whose times are known.
    """

    name: str
    target: str
    processors: int
    profile: DeviceProfile
    shared_bytes: int = 0
    row_buffer_bytes: int = 0
    architecture: str = ""
    tf32: bool = False
    simt: bool = False
    warp: int = 1
    registers: int = 0
    resident_threads: int = 0
    resident_blocks: int = 0
    queued: bool = False
    stages_loads: bool = False
    vector_accesses: bool = False
    grid_barrier: bool = False
    largest_cluster: int = 1
    block_barriers: int = 1
    early_starts: bool = False
    async_copies: bool = False
    tensor_cores: bool = False
    fused_attention: bool = False
    float8_matmuls: bool = False
    warpgroup_matmuls: bool = False
    convolution_epilogues: bool = False


def gpu_spec(profile: DeviceProfile, architecture: str) -> DeviceSpec:
    """An NVIDIA GPU of that profile and compute capability."""
    newer = int(architecture) >= ASYNC_COPY_ARCHITECTURE
    threads, blocks = RESIDENT.get(architecture, MOST_RESIDENT)
    return DeviceSpec(profile.name, "cuda", profile.processors, profile, shared_bytes=profile.shared_bytes,
                      architecture=architecture, tf32=True, simt=True, warp=32, registers=65536,
                      resident_threads=threads, resident_blocks=blocks, queued=True,
                      stages_loads=True, vector_accesses=True, grid_barrier=True,
                      largest_cluster=LARGEST_CLUSTER if int(architecture) >= CLUSTER_ARCHITECTURE else 1,
                      block_barriers=BLOCK_BARRIERS,
                      early_starts=int(architecture) >= EARLY_START_ARCHITECTURE, async_copies=newer,
                      tensor_cores=newer,
                      float8_matmuls=int(architecture) >= FLOAT8_ARCHITECTURE,
                      warpgroup_matmuls=architecture == WARPGROUP_ARCHITECTURE)


def cpu_spec(profile: DeviceProfile, cores: int) -> DeviceSpec:
    """A CPU of which `cores` may be used."""
    return DeviceSpec("cpu", "cpu", cores, profile, row_buffer_bytes=1 << 16, architecture="native")


H200 = gpu_spec(shipped_profile("h200"), "90")
"""One NVIDIA H200."""

CPU = cpu_spec(shipped_profile("cpu"), 2)
"""A two-core x86-64 machine."""
