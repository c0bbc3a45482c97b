"""CUDA C++ sources as libclang parses them: kernels, by name, and where in the text everything is."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from tf_stitch.errors import BuildError, SourceError
from tf_stitch.hfuse.preprocess import Expanded, expand

Cursor = Any
"""libclang's: its package has no types."""
_FILE = "source.cu"
_FLAGS = ("-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-nostdinc", "-nostdinc++", "-std=c++17",
          "-fsyntax-only", "-Wno-everything", "-ferror-limit=1")
FUNCTIONS = {"FUNCTION_DECL", "FUNCTION_TEMPLATE"}
SCOPES = {"NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL"}


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed source.

    Attributes:
        name: the user's file.
        expanded: its text, without directives, and where its lines came from.
        unit: the translation unit.
    """

    name: str
    expanded: Expanded
    unit: Any = field(repr=False)

    @property
    def text(self) -> bytes:
        return self.expanded.text

    def error(self, at: Cursor | int, reason: str) -> SourceError:
        """An error at a cursor, or at a byte of the text."""
        offset = at if isinstance(at, int) else start(at)
        return SourceError(*self.expanded.where(offset), reason)

    def line(self, at: Cursor) -> int:
        """The user's line."""
        return self.expanded.where(start(at))[1]

    @cached_property
    def declarations(self) -> tuple[Cursor, ...]:
        """Every declaration at the top, or in a namespace, in the order of the text."""
        return tuple(_in_scope(self.unit.cursor))

    @cached_property
    def tokens(self) -> tuple[Any, ...]:
        """All tokens of the text."""
        return tuple(self.unit.get_tokens(extent=_everything(self.unit, len(self.text))))


@dataclass(frozen=True, eq=False)
class Kernel:
    """A `__global__` function.

    Attributes:
        cursor: its definition.
        arguments: of its template, as the user gave them: "<float, 256>"; empty if it is none.
    """

    source: Source
    name: str
    cursor: Cursor = field(repr=False)
    arguments: str = ""

    @property
    def is_template(self) -> bool:
        return bool(self.cursor.kind.name == "FUNCTION_TEMPLATE")

    @property
    def symbol(self) -> str | None:
        """What it is called in a binary; None of a template."""
        return None if self.is_template else str(self.cursor.mangled_name)

    @property
    def body(self) -> Cursor:
        return next(c for c in self.cursor.get_children() if c.kind.name == "COMPOUND_STMT")

    @property
    def parameters(self) -> list[Cursor]:
        return [c for c in self.cursor.get_children() if c.kind.name == "PARM_DECL"]

    @property
    def qualified(self) -> str:
        """Its name with the namespaces that it is in, and its template arguments."""
        names: list[str] = []
        scope = self.cursor.semantic_parent
        while scope is not None and scope.kind.name != "TRANSLATION_UNIT":
            if scope.kind.name == "NAMESPACE" and scope.spelling and not scope.spelling.startswith("("):
                names.append(scope.spelling)
            scope = scope.semantic_parent
        return "::".join([*reversed(names), self.cursor.spelling]) + self.arguments


def parse(path: Path, architecture: str, defines: tuple[str, ...] = ()) -> Source:
    """Parses a file.

    Args:
        architecture: compute capability, as "90".
        defines: macros, as "NAME" or "NAME=value".

    Raises:
        SourceError: it cannot be read, or is no CUDA C++.
        BuildError: libclang is missing.
    """
    return parse_text(expand(path, architecture, defines), str(path))


def parse_text(expanded: Expanded, name: str) -> Source:
    """Parses a source without directives.

    Raises:
        SourceError: it is no CUDA C++.
        BuildError: libclang is missing.
    """
    index = _libclang()
    declarations = str(resources.files("tf_stitch.hfuse") / "cuda_declarations.h")
    unit = index.parse(_FILE, args=[*_FLAGS, "-include", declarations],
                       unsaved_files=[(_FILE, expanded.text.decode())])
    source = Source(name, expanded, unit)
    for diagnostic in unit.diagnostics:
        if diagnostic.severity >= 3:
            raise _complaint(source, diagnostic)
    return source


def find_kernel(source: Source, wanted: str) -> Kernel:
    """The kernel of a name: "name", or "name<arguments>" of a template.

    Raises:
        SourceError: there is none, there are several, or a template lacks its arguments.
    """
    name, bracket, rest = wanted.partition("<")
    name = name.strip()
    found = [c for c in source.declarations
             if is_kernel(c) and c.is_definition() and c.spelling == name.split("::")[-1]]
    if not found:
        known = sorted({c.spelling for c in source.declarations if is_kernel(c)})
        raise SourceError(source.name, 0, f"has no kernel {name}; "
                          + (f"its kernels are {', '.join(known)}" if known else "it has no __global__ function"))
    if len(found) > 1:
        lines = ", ".join(str(source.line(c)) for c in found)
        raise source.error(found[1], f"{name} has several definitions (lines {lines}); one can be fused")
    kernel = Kernel(source, name, found[0], bracket + rest.strip())
    if kernel.is_template and not bracket:
        raise source.error(kernel.cursor, f"{name} is a template: say which, as {name}<...>")
    if bracket and not kernel.is_template:
        raise source.error(kernel.cursor, f"{name} is no template, and {wanted!r} gives it arguments")
    return kernel


def is_kernel(cursor: Cursor) -> bool:
    """Whether it declares a `__global__` function."""
    return cursor.kind.name in FUNCTIONS and any(c.kind.name == "CUDAGLOBAL_ATTR" for c in cursor.get_children())


def start(cursor: Cursor) -> int:
    """Where it begins in the text, in bytes."""
    return int(cursor.extent.start.offset)


def end(cursor: Cursor) -> int:
    """Where it ends."""
    return int(cursor.extent.end.offset)


def in_text(cursor: Cursor) -> bool:
    """Whether it stands in the user's text, and not among CUDA's declarations."""
    file = cursor.location.file
    return file is not None and file.name == _FILE


def walk(cursor: Cursor, above: tuple[Cursor, ...] = ()) -> Iterator[tuple[Cursor, tuple[Cursor, ...]]]:
    """A cursor and all below it, each with those above it, the nearest last."""
    yield cursor, above
    for child in cursor.get_children():
        yield from walk(child, (*above, cursor))


def _in_scope(scope: Cursor) -> Iterator[Cursor]:
    for cursor in scope.get_children():
        if not in_text(cursor):
            continue
        yield cursor
        if cursor.kind.name in SCOPES:
            yield from _in_scope(cursor)


def _libclang() -> Any:
    try:
        from clang import cindex
        _leave_to_the_system(cindex)
        return cindex.Index.create()
    except (ImportError, OSError, AttributeError) as error:
        raise BuildError(f"libclang is not available ({error}); pip install 'libclang>=16'") from None
    except Exception as error:  # cindex.LibclangError, of a library that cannot be loaded
        raise BuildError(f"libclang cannot be loaded: {error}") from None


@lru_cache(maxsize=1)
def _leave_to_the_system(cindex: Any) -> None:
    """When Python ends, libclang's objects go with the process: its package frees them by modules that are gone."""
    def forget() -> None:
        for kind in (cindex.TranslationUnit, cindex.Index, cindex.TokenGroup):
            kind.__del__ = lambda _: None

    atexit.register(forget)


def _everything(unit: Any, size: int) -> Any:
    from clang import cindex
    file = unit.get_file(_FILE)
    first, last = (cindex.SourceLocation.from_offset(unit, file, offset) for offset in (0, size))
    return cindex.SourceRange.from_locations(first, last)


def _complaint(source: Source, diagnostic: Any) -> SourceError:
    at = diagnostic.location
    if at.file is None or at.file.name != _FILE:  # of a call that no declaration fits: the notes name the place
        places = [child.location for child in diagnostic.children
                  if child.location.file is not None and child.location.file.name == _FILE]
        if not places:
            return SourceError(source.name, 0, str(diagnostic.spelling))
        at = places[0]
    return source.error(int(at.offset), str(diagnostic.spelling))


