"""Names of functions at addresses of this process, by the symbol tables of its libraries, local functions included."""

from __future__ import annotations

import re
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SYMTAB, DYNSYM, FUNCTION, LOAD_FENCE = 2, 11, 2, 1
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
                    ("size", "<u8")])  # fmt: skip


@dataclass(frozen=True)
class SymbolTable:
    """The functions of an ELF file: `segments` are (offset in the file, address, bytes); `functions` are by address."""

    segments: list[tuple[int, int, int]]
    functions: Any
    names: bytes

    def name(self, offset: int) -> str | None:
        """The function at an offset in the file."""
        at = next((offset - start + address for start, address, size in self.segments
                   if start <= offset < start + size), offset)  # fmt: skip
        i = int(np.searchsorted(self.functions["value"], np.uint64(at), side="right")) - 1
        if i < 0 or at >= int(self.functions["value"][i]) + int(self.functions["size"][i]):
            return None
        begin = int(self.functions["name"][i])
        return self.names[begin:self.names.index(b"\0", begin)].decode()


@cache
def symbol_table(path: Path) -> SymbolTable | None:
    """The table of a 64-bit file, None if it is none, or has no symbols."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return None

            def read(where: int, size: int) -> bytes:
                file.seek(where)
                return file.read(size)

            programs, sections = struct.unpack("<QQ", read(32, 16))
            program_size, program_count, section_size, section_count = struct.unpack("<HHHH", read(54, 8))
            headers = [struct.unpack("<IIQQQQIIQQ", read(sections + i * section_size, 64))
                       for i in range(section_count)]  # fmt: skip
            found = {h[1]: h for h in headers if h[1] in (SYMTAB, DYNSYM)}
            if not found:
                return None
            table = found.get(SYMTAB) or found[DYNSYM]
            parts = [struct.unpack("<IIQQQQ", read(programs + i * program_size, 40)) for i in range(program_count)]
            symbols = np.frombuffer(read(table[4], table[5]), _SYMBOL)
            names = read(headers[table[6]][4], headers[table[6]][5])
    except OSError:
        return None
    functions = symbols[(symbols["info"] % 16 == FUNCTION) & (symbols["section"] != 0)]
    functions = np.sort(functions, order=["value", "size"])
    return SymbolTable([(p[2], p[3], p[5]) for p in parts if p[0] == LOAD_FENCE], functions, names)


def function_names(addresses: Iterable[int]) -> dict[int, str]:
    """Address -> function; where no table has one, the file's name in brackets."""
    code = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, offset, _, _, *path = line.split(maxsplit=5)
        if "x" in rights:
            begin, end = (int(bound, 16) for bound in span.split("-"))
            code.append((begin, end, int(offset, 16), Path(path[0] if path else "?")))
    code.sort()
    begins = [begin for begin, *_ in code]
    found = {}
    for address in set(addresses):
        begin, end, offset, path = code[max(bisect_right(begins, address) - 1, 0)]
        table = symbol_table(path) if begin <= address < end else None
        found[address] = (table and table.name(address - begin + offset)) or f"[{path.name}]"
    readable = _demangled(sorted(set(found.values())))
    return {address: readable[name] for address, name in found.items()}


def _demangled(names: list[str]) -> dict[str, str]:
    try:
        text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    except OSError:  # comes with a compiler
        return {name: name for name in names}
    return dict(zip(names, map(_short, text.split("\n")), strict=False))


def _short(name: str) -> str:
    """Without arguments, and those of templates."""
    for text, instead in (("(anonymous namespace)", "@"), ("operator()", "operator[]"), ("operator<", "operator_")):
        name = name.replace(text, instead)
    kept, depth = [], 0
    for letter in name:
        depth += (letter in "<(") - (letter in ">)" and depth > 0)
        if not depth and letter not in ">)":
            kept.append(letter)
    return re.sub(r"\b(tensorflow|tsl|absl|std|lts_\d+)::", "", "".join(kept)).replace(" const", "").strip()[-100:]
