"""Whether what a compiler made can be loaded. A compiler may write garbage, or a part, and say that all went well."""

from __future__ import annotations

import _ctypes
import ctypes
import struct
from pathlib import Path

from tf_stitch.errors import BuildInterruptedError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SEGMENT = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
_SECTION_BYTES = 64  # of an Elf64_Shdr


def check_elf(data: bytes, what: str) -> None:
    """Checks that a 64-bit ELF file (a shared library, a cubin) is one, and has all of its segments: the loader
    of a truncated one ends the process by SIGBUS.

    Args:
        what: made it, for the message.

    Raises:
        BuildInterruptedError: it is none, or lacks some.
    """
    try:
        ident, _, _, _, _, segments, sections, _, _, _, n_segments, _, n_sections, _ = _HEADER.unpack_from(data)
        ends = [segments + n_segments * _SEGMENT.size, sections + n_sections * _SECTION_BYTES]
        for i in range(n_segments):
            _, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(data, segments + i * _SEGMENT.size)
            ends.append(offset + size)
        whole = ident.startswith(b"\x7fELF\x02\x01") and n_segments + n_sections > 0 and max(ends) <= len(data)
    except struct.error:
        whole = False
    if not whole:
        raise BuildInterruptedError(f"{what} said that all went well, but what it wrote ({len(data)} bytes) is no "
                                    "whole ELF file")


def check_library(path: Path, what: str) -> None:
    """Checks a shared library, and loads it once.

    Raises:
        BuildInterruptedError: it cannot be loaded.
    """
    check_elf(path.read_bytes(), what)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildInterruptedError(f"{what} said that all went well, but what it wrote cannot be loaded: {error}"
                                    ) from None
    _ctypes.dlclose(library._handle)
