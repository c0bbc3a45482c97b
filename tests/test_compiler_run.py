"""What compilers refuse, and what they lack."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tf_stitch.compiler_run import beside_the_program, is_beside_the_program, refuses_the_source, run_compiler

REFUSES = {
    "undeclared": "k.c:3:5: error: 'x' undeclared (first use in this function)",
    "no column": "/a/stitch_op.cc:7: error: no luck",
    "not the first line": "In file included from a.cc:1:\nb.h:2:1: fatal error: too many errors emitted\nx",
    "linker": "a.o: in function `f':\na.c:(.text+0x5): undefined reference to `g'\ncollect2: error: ld returned 1",
    "loader": "OSError: /c/tiny.so: undefined symbol: _Z4tinyv",
}
LACKS = {
    "nothing is said": "",
    "memory": "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
    "killed": "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
    "processes": "gcc: fatal error: cannot execute 'cc1': vfork: Resource temporarily unavailable",
    "files": "k.c:1:10: fatal error: math.h: Too many open files",
    "a place": "k.c:9:1: fatal error: error writing to /tmp/x.s: No space left on device",
    "quota": "/usr/bin/ld: final link failed: Disk quota exceeded",
    "a mapping": "OSError: a.so: failed to map segment from shared object",
    "a header that is not installed": "k.c:1:10: fatal error: math.h: No such file or directory",
    "the folder that it ran in": "Traceback (most recent call):\n  File \"<string>\", line 1\nImportError: error: no",
    "the compiler's own fault": "k.c:3:5: internal compiler error: Segmentation fault",
    "a shell that cannot start it": "sh: 1: Cannot fork",
}


@pytest.mark.parametrize("said", REFUSES)
def test_a_source_is_refused(said: str) -> None:
    assert refuses_the_source(subprocess.CompletedProcess([], 1, "", REFUSES[said]))


@pytest.mark.parametrize("said", LACKS)
def test_all_else_may_pass(said: str) -> None:
    assert not refuses_the_source(subprocess.CompletedProcess([], 1, "", LACKS[said]))


def test_who_succeeds_or_is_killed_refuses_nothing() -> None:
    for code in (0, -9):
        assert not refuses_the_source(subprocess.CompletedProcess([], code, "", REFUSES["no column"]))


def test_a_compiler_speaks_english(tmp_path: Path) -> None:
    """Also clang; what it says is told apart by its words."""
    assert run_compiler(["sh", "-c", "echo $LC_ALL"], 10, {"LC_ALL": "de_DE.UTF-8", "PATH": "/bin"}).stdout == "C\n"


def test_a_compiler_that_nobody_waits_for_gives_way() -> None:
    niceness = ["sh", "-c", "sleep 0.3; nice"]
    own = int(run_compiler(niceness, 10).stdout)
    with beside_the_program():
        assert is_beside_the_program()
        assert int(run_compiler(niceness, 10).stdout) == min(19, max(10, own))
    assert not is_beside_the_program()
