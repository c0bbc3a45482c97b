"""What a compiler or a disk damaged is refused, and ends no process."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from tf_stitch.errors import BuildInterruptedError
from tf_stitch.runtime.library_check import check_elf, check_library

SOURCE = "#include <math.h>\n" + "".join(
    f"static const float table_{i}[2000] = {{{', '.join(str(j + 1) for j in range(2000))}}};\n"
    f"float f{i}(float x, int n) {{ return expf(x) * {i}.5f + table_{i}[n]; }}\n" for i in range(100))
PAGE = 4096


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "f.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "f.c", "-o", "f.so", "-lm"], cwd=folder, check=True)
    return folder / "f.so"


def test_a_whole_one(library: Path) -> None:
    check_library(library, "gcc")


def test_no_lost_page_ends_the_process_and_none_of_code_is_missed(library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    missed = []
    for start in range(0, len(whole), PAGE):
        damaged = (whole[:start] + bytes(PAGE) + whole[start + PAGE:])[:len(whole)]
        if damaged == whole:
            continue
        (tmp_path / "f.so").write_bytes(damaged)
        try:
            check_library(tmp_path / "f.so", "gcc")
        except BuildInterruptedError:
            continue
        missed.append(start)
    assert missed, "constants may be zeros"
    assert set(missed).isdisjoint(pages_of_code(whole))


def pages_of_code(library: bytes) -> range:
    """Where pages begin that hold nothing but code."""
    segments, count = int.from_bytes(library[32:40], "little"), int.from_bytes(library[56:58], "little")
    heads = [struct.unpack_from("<IIQQQQQQ", library, segments + i * 56) for i in range(count)]
    [(start, size)] = [(offset, size) for kind, flags, offset, _, _, size, *_ in heads if kind == 1 and flags & 1]
    return range(start, start + size // PAGE * PAGE, PAGE)


def test_constants_that_are_zeros(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("static const double zeros[9000]; double f(int n) { return zeros[n] + 0.0 * n; }\n")
    subprocess.run(["gcc", "-O0", "-shared", "-fPIC", "f.c", "-o", "f.so"], cwd=tmp_path, check=True)
    check_library(tmp_path / "f.so", "gcc")


def test_a_section_that_is_not_whole(library: Path) -> None:
    whole = bytearray(library.read_bytes())
    sections = int.from_bytes(whole[40:48], "little")
    whole[sections + 64 + 4:sections + 64 + 8] = bytes(4)  # the type of the first
    with pytest.raises(BuildInterruptedError, match="no whole ELF file"):
        check_elf(bytes(whole), "gcc")


def test_code_that_is_lost_within_a_page(library: Path) -> None:
    whole = bytearray(library.read_bytes())
    table, count = int.from_bytes(whole[40:48], "little"), int.from_bytes(whole[60:62], "little")
    sections = [struct.unpack_from("<IIQQQQ", whole, table + i * 64) for i in range(count)]
    size, start = max((size, offset) for _, _, flags, _, offset, size in sections if flags & 4)
    whole[start + size // 2:start + size // 2 + 200] = bytes(200)
    with pytest.raises(BuildInterruptedError, match="no whole ELF file"):
        check_elf(bytes(whole), "gcc")
