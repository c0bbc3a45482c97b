"""What a region runs: steps over buffers, as data; and its encoding for the native op."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.ir.types import TensorType
from tf_stitch.libraries.call import LibraryCall
from tf_stitch.libraries.registry import code_of
from tf_stitch.placement.executable_format import (
    ABI_VERSION,
    COPY,
    DEVICE_LAUNCH,
    HOST_LAUNCH,
    Space,
    StateMode,
    StepCode,
)
from tf_stitch.wire_format import OperandFields

COUNTER_BYTES = 64
"""Of the counter of a grid barrier."""
ALIGNMENT = 256
"""Bytes; cudaMalloc's, and a multiple of a cache line."""


@dataclass(frozen=True)
class BufferRef:
    """A buffer: a number within its space, or a byte offset into the arena, counted through its segments. The counters
    of grid barriers are numbered too: memory that an executable keeps from run to run, zero at first. Its runs follow
    each other in one stream, and no two of its steps share a counter. A step may use as many as it has blocks, from the
    one it is given on."""

    space: Space
    index: int


@dataclass(frozen=True)
class HostLaunch:
    """Calls a CPU kernel: `symbol` of a library. It gets pointers, then one to `sizes` (int64) if there are any."""

    symbol: str
    args: tuple[BufferRef, ...]
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class DeviceLaunch:
    """Launches a CUDA kernel: `symbol` of a cubin. It gets pointers, then `sizes`, each as a 64-bit integer. The blocks
    of a cooperative one wait for each other; its last pointer is the counter of its grid barrier."""

    symbol: str
    grid: int
    threads: int
    shared_bytes: int
    args: tuple[BufferRef, ...]
    sizes: tuple[int, ...] = ()
    cooperative: bool = False


@dataclass(frozen=True)
class Copy:
    """Copies `nbytes` bytes."""

    target: BufferRef
    source: BufferRef
    nbytes: int


@dataclass(frozen=True)
class LibraryStep:
    """Calls one of the device's libraries; `args` are as the call wants them, the result last."""

    call: LibraryCall
    args: tuple[BufferRef, ...]


Step: TypeAlias = HostLaunch | DeviceLaunch | Copy | LibraryStep


@dataclass(frozen=True)
class Executable:
    """Steps in order.

    Attributes:
        inputs: keys of the region's inputs, as the op's inputs are ordered.
        variables: handles of the region's variables, as the op's variables are ordered.
        outputs: types of the region's outputs.
        state: (variable number, mode) of every variable that gets a new value.
        updated: (output, input): the steps update the output's memory, which has to hold the input's value before them.
        binary: shared library (CPU) or cubin (GPU) that holds the kernels.
        arena: bytes of each segment of the memory in which steps leave values for others; no value lies in two.
        live_bytes: what the arena's values take at one time, at most.
        nodes: names of the user's nodes that each step computes, what it is named after last; fewer than steps where
            the last ones compute nothing.
        after: GPU: for each step the earlier ones it has to wait for; None: each waits for the one before it.
    """

    inputs: tuple[str, ...]
    variables: tuple[str, ...]
    outputs: tuple[TensorType, ...]
    state: tuple[tuple[int, StateMode], ...]
    arena: tuple[int, ...]
    steps: tuple[Step, ...]
    binary: bytes | str | None
    after: tuple[tuple[int, ...], ...] | None = None
    live_bytes: int = 0
    nodes: tuple[tuple[str, ...], ...] = ()
    updated: tuple[tuple[int, int], ...] = ()

    @property
    def arena_bytes(self) -> int:
        return sum(self.arena)


def encode(executable: Executable, function_address: Mapping[str, int],
           images: Mapping[tuple[int, int], Collection[str]] | None = None) -> list[int]:
    """The native op's words (see executable_format).

    Args:
        function_address: CPU: address of each kernel; GPU: address of each symbol's NUL-terminated name.
        images: GPU: cubins, each by its address and bytes, which have to stay, with the symbols it holds.
    """
    images = images or {}
    module = {symbol: i for i, symbols in enumerate(images.values()) for symbol in symbols}
    words = [ABI_VERSION, len(executable.arena), *executable.arena, len(executable.outputs)]
    for t in executable.outputs:
        words += [t.rank, *t.dims]
    words.append(len(executable.state))
    for variable, mode in executable.state:
        words += [variable, int(mode)]
    words += [len(executable.updated), *(number for pair in executable.updated for number in pair)]
    words += [len(images), *(w for image in images for w in image)]
    words.append(len(executable.steps))
    for step in executable.steps:
        words += _encode_step(step, function_address, module)
    for before in executable.after or ():
        words += [len(before), *before]
    return words


def _encode_step(step: Step, address: Mapping[str, int], module: Mapping[str, int]) -> list[int]:
    if isinstance(step, HostLaunch):
        return [int(StepCode.HOST_LAUNCH),
                *HOST_LAUNCH.words(kernel=address[step.symbol], args=step.args, sizes=step.sizes)]
    if isinstance(step, DeviceLaunch):
        return [int(StepCode.DEVICE_LAUNCH), *DEVICE_LAUNCH.words(
            module=module[step.symbol], symbol=address[step.symbol], grid=step.grid, block=step.threads,
            dynamic_shared_bytes=step.shared_bytes, cooperative=step.cooperative, args=step.args, sizes=step.sizes)]
    if isinstance(step, LibraryStep):
        return [int(StepCode.LIBRARY_CALL), code_of(step.call), *step.call.record.words(**step.call.members()),
                *OperandFields("args").words(step.args)]
    return [int(StepCode.COPY), *COPY.words(target=step.target, source=step.source, bytes=step.nbytes)]
