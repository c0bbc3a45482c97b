"""Runs CUDA kernels that people wrote, and fused ones, on this machine: threads in adversarial order."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.support import cuda_on_cpu
from tests.support.cuda_on_cpu import CUDA_MACHINE, Adversary
from tf_stitch.hfuse.fuse import Fused
from tf_stitch.hfuse.launch import Shape
from tf_stitch.hfuse.preprocess import Expanded
from tf_stitch.hfuse.rewrite import Edit, apply
from tf_stitch.hfuse.source import Kernel, end, find_kernel, parse_text, start, walk
from tf_stitch.placement.executable import DeviceLaunch

Argument = np.ndarray | int | float  # type: ignore[type-arg]


def kernel_of(text: str, name: str, file: str = "kernel.cu") -> Kernel:
    """A kernel of a text without directives."""
    lines = tuple((file, i + 1) for i in range(text.count("\n") + 1))
    return find_kernel(parse_text(Expanded(text.encode(), lines), file), name)


def run_separate(kernel: Kernel, shape: Shape, arguments: Sequence[Argument], adversary: Adversary) -> None:
    """Launches a kernel as it is written, but for the name of dynamic shared memory."""
    edits = []
    for cursor, above in walk(kernel.source.unit.cursor):
        extern = cursor.kind.name == "VAR_DECL" and cursor.storage_class.name == "EXTERN"
        if extern and above[-1].kind.name == "DECL_STMT":
            element = cursor.type.element_type.spelling
            edits.append(Edit(start(above[-1]), end(above[-1]), f"auto* {cursor.spelling} = ({element}*)tfs_shared;"))
    source = apply(kernel.source.text, edits).decode()
    symbol = kernel.cursor.spelling
    if kernel.qualified != symbol:
        source += f"\nconstexpr auto tfs_the_kernel = {kernel.qualified};\n"
        symbol = "tfs_the_kernel"
    scheduler = cuda_on_cpu.scheduler()
    scheduler.tfs_shape(*shape.block[:2], *shape.grid[:2])
    scheduler.tfs_let_threads_end(True)
    try:
        _launch(source, symbol, shape.blocks, shape.threads, shape.dynamic_bytes, arguments, adversary)
    finally:
        scheduler.tfs_shape(0, 0, 0, 0)
        scheduler.tfs_let_threads_end(False)


def run_fused(fused: Fused, arguments: Sequence[Argument], adversary: Adversary) -> None:
    """Launches a fused kernel.

    Raises:
        LaunchError: threads wait for ever, or an access is wrong.
    """
    _launch(fused.source, fused.symbol, fused.blocks, fused.threads, fused.dynamic_bytes, arguments, adversary)


def _launch(source: str, symbol: str, blocks: int, threads: int, dynamic: int, arguments: Sequence[Argument],
            adversary: Adversary) -> None:
    library = ctypes.CDLL(str(cuda_on_cpu._built(source, (symbol,), CUDA_MACHINE)))
    step = DeviceLaunch(symbol, blocks, threads, dynamic, ())
    cuda_on_cpu.launch(library, step, [_word(value) for value in arguments], 1, adversary)


def _word(value: Argument) -> int:
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    if isinstance(value, float):
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    return value & (1 << 64) - 1


KERNELS = Path(__file__).parents[2] / "tools" / "hfuse_kernels"
