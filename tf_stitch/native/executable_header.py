"""Writes `op/executable_format.h`, the native op's side of placement.executable_format and of the libraries' records.

`python -m tf_stitch.native.executable_header` after either changed; a test holds the file current.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path

from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.placement.executable_format import ABI_VERSION, STEPS, Space, StateMode, StepCode
from tf_stitch.wire_format import Choice, Nested, Record

HEADER = Path(__file__).parent / "op" / "executable_format.h"
WIDTH = 118

_BEGIN = """\
// The words of an executable: codes, and records with what reads them. See tf_stitch/placement/executable_format.py.
// Made by `python -m tf_stitch.native.executable_header`; edits are lost.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "cpu/stitch_abi.h"
#include "op/library_call.h"

namespace tf_stitch {
"""
_OPERAND = """\
// Where an operand of a step lives.
struct Operand {
  Space space;
  std::int64_t index;  // input, output, variable, state entry or counter; for kArena the offset in bytes
  int segment = 0;     // of the arena; `index` counts from its beginning
};
"""
_END = """\
}  // namespace tf_stitch
"""


def header() -> str:
    """The text of the header."""
    libraries = [library.record for library in LIBRARIES]
    records = list(dict.fromkeys(record for one in (*STEPS, *libraries) for record in _with_parts(one)))
    choices = dict.fromkeys(field.of for record in records for field in record.fields if isinstance(field, Choice))
    enumerations: list[type[IntEnum]] = [StateMode, StepCode, *choices]
    parts = [_BEGIN, f"constexpr std::int64_t kAbi = {ABI_VERSION};\n", _enumeration(Space), _OPERAND,
             *map(_enumeration, enumerations), *map(_struct, records), *_calls(), _END]
    return "\n".join(parts)


def _with_parts(record: Record) -> Iterator[Record]:
    """A record after those that it holds."""
    for field in record.fields:
        if isinstance(field, Nested):
            yield from _with_parts(field.of)
    yield record


def _enumeration(of: type[IntEnum]) -> str:
    assert [int(member) for member in of] == list(range(len(of))), f"{of.__name__} does not count from 0"
    return _enum_class(of.__name__, of.__doc__ or "", [member.name for member in of])


def _enum_class(name: str, doc: str, members: Sequence[str]) -> str:
    lines = "".join(f"  {_constant(member)} = {number},\n" for number, member in enumerate(members))
    return f"{_comment(doc)}enum class {name} : std::int64_t {{\n{lines}}};\n"


def _constant(name: str) -> str:
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def _comment(text: str) -> str:
    lines = textwrap.wrap(re.sub(r"\s+", " ", text).strip(), WIDTH - 3)
    return "".join(f"// {line}\n" for line in lines)


def _struct(record: Record) -> str:
    members = [f"  {field.cpp_type} {field.name};" + (f"  // {field.doc}" if field.doc else "")
               for field in record.fields]
    reads = [f"    words.{field.name} = " + field.cpp_read(f"{record.name}.{field.name}") + ";"
             for field in record.fields]
    return "\n".join([f"{_comment(record.doc)}struct {record.name} {{", *members, *_order(record), "",
                      "  template <typename Reader>", f"  static {record.name} Read(Reader& reader) {{",
                      f"    {record.name} words{{}};", *reads, "    return words;", "  }", "};", ""])


def _order(record: Record) -> Sequence[str]:
    if not record.ordered:
        return ()
    members = ", ".join(field.name for field in record.fields)
    return ("", f"  auto Tie() const {{ return std::tie({members}); }}",
            f"  bool operator<(const {record.name}& other) const {{ return Tie() < other.Tie(); }}")


def _calls() -> Iterator[str]:
    """What reads a library call, by functions that each library's own file defines."""
    yield _enum_class("LibraryCode", "Which library a call is of.", [library.name for library in LIBRARIES])
    declared = "".join(f"std::shared_ptr<const LibraryCall> MakeCall(const {library.record.name}& spec);\n"
                       for library in LIBRARIES)
    yield f"// The call of a record; throws std::invalid_argument where that makes no sense.\n{declared}"
    cases = "".join(f"    case LibraryCode::{_constant(library.name)}:\n"
                    f"      return MakeCall({library.record.name}::Read(reader));\n" for library in LIBRARIES)
    yield ("template <typename Reader>\n"
           "std::shared_ptr<const LibraryCall> ReadCall(Reader& reader) {\n"
           f'  switch (static_cast<LibraryCode>(reader.Ranged("library", 0, {len(LIBRARIES) - 1}))) {{\n'
           f"{cases}  }}\n  return nullptr;\n}}\n")


if __name__ == "__main__":
    HEADER.write_text(header())
