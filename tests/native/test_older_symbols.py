"""Which systems the native libraries load on: what a wheel's manylinux tag rests on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, Library, build_library

NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
"""What every system of manylinux_2_28 has."""


def needed_versions(library: Path) -> dict[str, tuple[int, ...]]:
    """The newest version that a library needs of each system library, by the beginning of its name."""
    text = subprocess.run(["readelf", "--version-info", "--wide", str(library)], capture_output=True, text=True,
                          check=True).stdout
    needed: dict[str, tuple[int, ...]] = {}
    for name, number in re.findall(r"Name: ([A-Z]+)_([\d.]+)", text):
        needed[name] = max(needed.get(name, ()), tuple(map(int, number.split("."))))
    return needed


@pytest.mark.parametrize("library", [STITCH_OP, GRAPH_HOOK], ids=lambda library: library.name)
def test_nothing_newer_than_manylinux_2_28_is_needed(library: Library) -> None:
    needed = needed_versions(build_library(library, load_config().cache_dir))
    assert {"GLIBC", "GLIBCXX"} <= set(needed)
    too_new = {name: number for name, number in needed.items() if number > NEWEST[name]}
    assert not too_new, "objdump -T names the functions; give them an older version in native/libc/older_symbols.cc"
