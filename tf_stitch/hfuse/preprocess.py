"""Expands a CUDA source's macros and quoted includes with the C preprocessor, and remembers where each line came from.

A source without directives stays as it is, comments and all, and needs no preprocessor. Angle brackets name the headers
of `include/`: what CUDA declares without any is in no source that is emitted.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from tf_stitch.child_process import find_program
from tf_stitch.compiler_run import run_compiler
from tf_stitch.errors import BuildError, SourceError

SECONDS = 60
"""Limit of the preprocessor."""
_KEPT = (b"pragma",)
"""Directives that the preprocessor leaves in the text."""


@dataclass(frozen=True)
class Expanded:
    """A source without directives.

    Attributes:
        text: UTF-8.
        lines: file and line of the user's, of each line of the text.
    """

    text: bytes
    lines: tuple[tuple[str, int], ...]

    def where(self, offset: int) -> tuple[str, int]:
        """The user's file and line of a byte of the text."""
        return self.lines[min(self.text.count(b"\n", 0, offset), len(self.lines) - 1)]


def expand(path: Path, architecture: str, defines: tuple[str, ...] = ()) -> Expanded:
    """The source of a file.

    Args:
        architecture: compute capability, as "90": the value of `__CUDA_ARCH__` is ten times that.
        defines: macros for the preprocessor, as "NAME" or "NAME=value".

    Raises:
        SourceError: the file cannot be read, or a directive is wrong.
        BuildError: there is no preprocessor, and the source has directives.
    """
    try:
        text = path.read_bytes()
        text.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(str(path), 0, f"cannot be read: {error}") from None
    if not defines and not _has_directives(text):
        return Expanded(text, tuple((str(path), i + 1) for i in range(text.count(b"\n") + 1)))
    return _follow_markers(_preprocessed(path, architecture, defines), path)


def _has_directives(text: bytes) -> bool:
    """Whether a line begins with `#`, but for pragmas, or is continued by a backslash."""
    lines = [line.strip() for line in text.split(b"\n")]
    return any((line.startswith((b"#", b"%:")) and not line[1:].strip().startswith(_KEPT)) or line.endswith(b"\\")
               for line in lines)


def _preprocessed(path: Path, architecture: str, defines: tuple[str, ...]) -> str:
    compiler = find_program(("g++", "c++", "clang++", "gcc", "cc"))
    if compiler is None:
        raise BuildError(f"{path} has preprocessor directives, and there is no g++ or clang++ to expand them")
    headers = resources.files("tf_stitch.hfuse") / "include"
    macros = [f"-D__CUDA_ARCH__={int(architecture) * 10}", "-D__CUDACC__", "-D__CUDACC_RTC__",
              *(f"-D{define}" for define in defines)]
    command = [compiler, "-E", "-C", "-undef", "-nostdinc", "-x", "c++", f"-I{headers}", *macros, str(path)]
    try:
        done = run_compiler(command, SECONDS, folder=Path.cwd())  # what the user wrote is relative to it
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"the preprocessor did not end: {error}") from None
    if done.returncode:
        raise _located(done.stderr, path)
    return done.stdout


def _located(said: str, path: Path) -> SourceError:
    """The first error of the preprocessor: FILE:LINE:COLUMN: error: what."""
    for line in said.splitlines():
        place, _, message = line.partition("error: ")
        parts = place.strip().rstrip(":").removesuffix("fatal").strip().rstrip(":").split(":")
        if message and len(parts) >= 2 and parts[1].isdigit():
            return SourceError(parts[0], int(parts[1]), message)
    return SourceError(str(path), 0, said.strip()[:500] or "the preprocessor failed")


def _follow_markers(text: str, path: Path) -> Expanded:
    """Takes the line markers out (`# LINE "FILE" ...`) and empty lines that repeat."""
    kept: list[str] = []
    lines: list[tuple[str, int]] = []
    file, number = str(path), 1
    hidden = False
    for line in text.splitlines():
        if line.startswith("# ") and line[2:3].isdigit():
            count, _, rest = line[2:].partition(" ")
            file, number = rest[1 : rest.rindex('"')], int(count)
            hidden = file.startswith("<")
            continue
        if not hidden and (line.strip() or (kept and kept[-1].strip())):
            kept.append(line)
            lines.append((file, number))
        number += 1
    return Expanded("\n".join(kept).encode() + b"\n", (*lines, (file, number)))
