"""Whether what a compiler made can be loaded. A compiler may write garbage, or a part, and say that all went well; what
a disk lost of it is zeros."""

from __future__ import annotations

import _ctypes
import ctypes
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tf_stitch.compiler_run import run_compiler
from tf_stitch.config import plain_environment
from tf_stitch.errors import BuildInterruptedError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SEGMENT = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
_SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
_UNUSED, _NO_BITS = 0, 8
"""Types of sections: of the first entry alone; of one that takes no place in the file."""
_WRITABLE, _LOADED, _EXECUTABLE = 1, 2, 4
"""Flags of sections."""
_ZEROS_IN_CODE = 128
"""Bytes of zeros in a row that no machine code has. (Constants may well be zeros: what a disk lost of them is not
seen.)"""
_LOAD_SECONDS = 60


def check_elf(data: bytes, what: str) -> None:
    """Checks that a 64-bit ELF file (a shared library, a cubin) is one, and has all of its segments and sections, with
    code in those for code: the loader of a truncated one ends the process by SIGBUS.

    Args:
        what: made it, for the message.

    Raises:
        BuildInterruptedError: it is none, or lacks some.
    """
    try:
        ident, _, _, _, _, segments, sections, _, _, _, n_segments, _, n_sections, _ = _HEADER.unpack_from(data)
        ends = [segments + n_segments * _SEGMENT.size, sections + n_sections * _SECTION.size]
        for i in range(n_segments):
            _, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(data, segments + i * _SEGMENT.size)
            ends.append(offset + size)
        parts = list(_read_only(data, sections, n_sections))
        ends += [end for _, end, _ in parts]
        whole = ident.startswith(b"\x7fELF\x02\x01") and n_segments + n_sections > 0 and max(ends) <= len(data) and \
            not any(flags & _EXECUTABLE and _has_lost_code(data[start:end]) for start, end, flags in parts)
    except struct.error:
        whole = False
    if not whole:
        raise BuildInterruptedError(f"{what} said that all went well, but what it wrote ({len(data)} bytes) is no "
                                    "whole ELF file")


def _read_only(data: bytes, sections: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Begin, end and flags of the sections that are loaded and never written: code and constants.

    Raises:
        struct.error: the table of sections is not whole.
    """
    for i in range(1, count):
        _, kind, flags, _, offset, size, *_ = _SECTION.unpack_from(data, sections + i * _SECTION.size)
        if kind == _UNUSED:
            raise struct.error("a section of no type")
        if kind != _NO_BITS and flags & _LOADED and not flags & _WRITABLE and size:
            yield offset, offset + size, flags


def _has_lost_code(code: bytes) -> bool:
    return bytes(min(_ZEROS_IN_CODE, len(code))) in code


def check_library(path: Path, what: str) -> None:
    """Checks a shared library, and loads it once: in another process first, since damage may end the one that does.

    The system's loader is asked by way of a shell, which takes 2 ms; Python would take 20.

    Raises:
        BuildInterruptedError: it cannot be loaded.
    """
    check_elf(path.read_bytes(), what)
    _load_elsewhere(path, what)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildInterruptedError(f"{what} said that all went well, but what it wrote cannot be loaded: {error}"
                                    ) from None
    _ctypes.dlclose(library._handle)


def _load_elsewhere(path: Path, what: str) -> None:
    preload = {"LD_PRELOAD": f"./{path.name}", "LD_BIND_NOW": "1"}
    try:
        run = run_compiler(["true"], _LOAD_SECONDS, plain_environment() | preload, path.parent)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildInterruptedError(f"what {what} wrote could not be tried: {error}") from None
    if run.returncode != 0 or "LD_PRELOAD" in run.stderr:
        raise BuildInterruptedError(f"{what} said that all went well, but what it wrote cannot be loaded "
                                    f"(exit {run.returncode}): {run.stderr.strip()[:2000]}")
