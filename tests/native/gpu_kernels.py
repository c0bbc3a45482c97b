"""Kernels of tests on a GPU, as PTX text, which the driver compiles: no CUDA toolkit is needed."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import TypeAlias

from tests.native.conftest import executable
from tf_stitch.placement.executable import BufferRef
from tf_stitch.placement.executable_format import DEVICE_LAUNCH, Space, StepCode

Place: TypeAlias = tuple[int, int]
"""Space and number, or byte, of an operand."""


def entry(name: str, pointers: int, body: str, by_thread: bool = True, number: bool = False, begin: str = "") -> str:
    """A kernel. For `body` %a0, %a1, ... are its pointers, each at the element (4 bytes) of the thread, or at the
    first; there are registers %r0 to %r3 (b32), %f (f32) and %p (pred).

    Args:
        number: it takes one more parameter, %number (b64).
        begin: stands before everything else.
    """
    names = [f"p{i}" for i in range(pointers)]
    lines = [f".visible .entry {name}({', '.join(f'.param .u64 {p}' for p in [*names, *['number'] * number])}) {{",
             f".reg .b64 %a<{pointers}>; .reg .b64 %offset; .reg .b64 %number;",
             ".reg .b32 %r<4>; .reg .f32 %f; .reg .pred %p;", begin,
             *(f"ld.param.u64 %a{i}, [{p}]; cvta.to.global.u64 %a{i}, %a{i};" for i, p in enumerate(names))]
    if by_thread:
        lines += ["mov.u32 %r0, %tid.x; mul.wide.u32 %offset, %r0, 4;",
                  *(f"add.s64 %a{i}, %a{i}, %offset;" for i in range(pointers))]
    lines += ["ld.param.u64 %number, [number];"] * number
    return "\n".join([*lines, body, "ret;", "}"])


class Image:
    """Kernels that are loaded together."""

    def __init__(self, *entries: str, version: str = "7.0", target: str = "sm_60") -> None:
        self.text = "\n".join([f".version {version}", f".target {target}", ".address_size 64", *entries])
        code = self.text.encode() + b"\0"
        self.buffer = ctypes.create_string_buffer(code, len(code))
        names = re.findall(r"\.entry (\w+)", self.text)
        self._symbols = {name: ctypes.create_string_buffer(name.encode()) for name in names}

    def executable(self, outputs: Sequence[Sequence[int]], steps: Sequence[Sequence[int]], arena: Sequence[int] = (),
                   state: Sequence[Place] = ()) -> list[int]:
        """Words of an executable (tf_stitch/placement/executable_format.py), its outputs float32."""
        return executable(outputs, steps, arena, state, images=[(ctypes.addressof(self.buffer), len(self.buffer))])

    def launch(self, kernel: str, *operands: Place, threads: int = 1, sizes: Sequence[int] = (), blocks: int = 1,
               cooperative: int = 0, shared: int = 0) -> list[int]:
        """Words of a step."""
        return [StepCode.DEVICE_LAUNCH, *DEVICE_LAUNCH.words(
            module=0, symbol=ctypes.addressof(self._symbols[kernel]), grid=blocks, block=threads,
            dynamic_shared_bytes=shared, cooperative=cooperative, sizes=sizes,
            args=[BufferRef(Space(space), number) for space, number in operands])]
