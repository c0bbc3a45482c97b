"""What a region runs: steps over buffers, as data; and its encoding for the native op."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType
from tf_stitch.runtime.library_calls import Gemm

ABI_VERSION = 1
COUNTER_BYTES = 64
"""Of the counter of a grid barrier."""
ALIGNMENT = 256
"""Bytes; cudaMalloc's, and a multiple of a cache line."""


GEMM_TYPES = {DType.F32: 1, DType.F64: 2, DType.BF16: 14, DType.F16: 19}
"""Element types of products, as tensorflow.DataType numbers them."""


class Space(IntEnum):
    """Where a buffer lives; the numbers are the native op's."""

    INPUT = 0
    OUTPUT = 1
    VARIABLE = 2
    FRESH = 3
    ARENA = 4
    BARRIER = 5


@dataclass(frozen=True)
class BufferRef:
    """A buffer: a number within its space, or a byte offset into the arena. The counters of grid barriers are numbered
    too: memory that an executable keeps from run to run, zero at first. Its runs follow each other in one stream, and
    no two of its steps share a counter. A step may use as many as it has blocks, from the one it is given on."""

    space: Space
    index: int


class StateMode(IntEnum):
    """How a variable gets its new value: written over, or a fresh buffer takes its place."""

    IN_PLACE = 0
    FRESH = 1


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
class GemmStep:
    """Calls the device's matrix library; `args` are a, b, the bias and the addend if there are any, the result."""

    gemm: Gemm
    args: tuple[BufferRef, ...]


Step: TypeAlias = HostLaunch | DeviceLaunch | Copy | GemmStep


@dataclass(frozen=True)
class Executable:
    """Steps in order.

    Attributes:
        inputs: keys of the region's inputs, as the op's inputs are ordered.
        variables: handles of the region's variables, as the op's variables are ordered.
        outputs: types of the region's outputs.
        state: (variable number, mode) of every variable that gets a new value.
        binary: shared library (CPU) or cubin (GPU) that holds the kernels.
        after: GPU: for each step the earlier ones it has to wait for; None: each waits for the one before it.
    """

    inputs: tuple[str, ...]
    variables: tuple[str, ...]
    outputs: tuple[TensorType, ...]
    state: tuple[tuple[int, StateMode], ...]
    arena_bytes: int
    steps: tuple[Step, ...]
    binary: bytes | str | None
    after: tuple[tuple[int, ...], ...] | None = None


def encode(executable: Executable, function_address: Mapping[str, int],
           images: Mapping[tuple[int, int], Collection[str]] | None = None) -> list[int]:
    """The native op's words (see native/bindings.py).

    Args:
        function_address: CPU: address of each kernel; GPU: address of each symbol's NUL-terminated name.
        images: GPU: cubins, each by its address and bytes, which have to stay, with the symbols it holds.
    """
    images = images or {}
    module = {symbol: i for i, symbols in enumerate(images.values()) for symbol in symbols}
    words = [ABI_VERSION, executable.arena_bytes, len(executable.outputs)]
    for t in executable.outputs:
        words += [t.rank, *t.dims, 0]
    words.append(len(executable.state))
    for variable, mode in executable.state:
        words += [variable, int(mode)]
    words += [len(images), *(w for image in images for w in image)]
    words.append(len(executable.steps))
    for step in executable.steps:
        words += _encode_step(step, function_address, module)
    for before in executable.after or ():
        words += [len(before), *before]
    return words


def _encode_step(step: Step, address: Mapping[str, int], module: Mapping[str, int]) -> list[int]:
    if isinstance(step, HostLaunch):
        return [0, address[step.symbol], *_args(step.args), len(step.sizes), *step.sizes]
    if isinstance(step, DeviceLaunch):
        return [1, module[step.symbol], address[step.symbol], step.grid, 1, 1, step.threads, 1, 1, step.shared_bytes,
                int(step.cooperative), *_args(step.args), len(step.sizes), *step.sizes]
    if isinstance(step, GemmStep):
        g = step.gemm
        layouts = [w for x in (g.a, g.b, g.out) for w in (int(x.transposed), x.stride, x.step)]
        return [4, GEMM_TYPES[g.dtype], g.batch, g.m, g.n, g.k, *layouts, int(g.bias), int(g.addend),
                int(g.activation), *_args(step.args)]
    return [3, int(step.target.space), step.target.index, int(step.source.space), step.source.index, step.nbytes]


def _args(refs: Sequence[BufferRef]) -> list[int]:
    return [len(refs), *(w for r in refs for w in (int(r.space), r.index))]
