"""Programs that end, fork, fill the disk or are killed while regions are built: no crash, no hang, no wrong result."""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.conftest import PROGRAMS, SMALL, Runner, check

REAL_GCC = shutil.which("gcc")

Compiler = Callable[[str], str]


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    """compiler(shell commands) -> a PATH whose gcc runs them before it compiles a kernel."""

    def make(commands: str) -> str:
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "gcc"
        script.write_text(f'#!/bin/sh\ncase "$*" in *kernel.c*) {commands};; esac\nexec {REAL_GCC} "$@"\n')
        script.chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    return make


def test_the_interpreter_leaves_during_a_build(run: Runner, cache: Path, compiler: Compiler) -> None:
    start = time.monotonic()
    done = run(PROGRAMS / "leaves_while_building.py", TF_STITCH_CACHE=str(cache), PATH=compiler("sleep 200"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "left" in done.stdout
    assert done.stitched("step") > 0
    assert time.monotonic() - start < 100, "no build is waited for"


def test_fork_after_import(run: Runner, forked: Runner) -> None:
    plain, stitched = forked(PROGRAMS / "forks.py", stitch=""), run(PROGRAMS / "forks.py")
    check(plain, json.loads(plain.stdout))
    check(stitched, json.loads(plain.stdout))
    assert stitched.stitched("step") > 0, "the parent's report, not a child's"


def test_two_processes_with_one_cold_cache(forked: Runner, expected: list[float], cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda _: forked(SMALL, TF_STITCH_CACHE=str(cache)), range(2)):
            check(done, expected)
            assert done.reasons() == ""
            assert done.stitched("train") > 0
    assert not list((cache / "kernels").glob(".tmp_*"))


@pytest.mark.parametrize("scope", ["auto", "region"])
def test_many_threads_while_regions_are_built(forked: Runner, cache: Path, scope: str) -> None:
    done = forked(PROGRAMS / "many_threads.py", TF_STITCH_CACHE=str(cache), TF_STITCH_SCOPE=scope)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout) < 1e-5
    assert done.reasons() == ""
    assert done.report is not None
    assert done.report["regions"]
    assert all(region["builds"] <= 2 for region in done.report["regions"])


def test_a_process_that_is_killed_while_it_builds(forked: Runner, expected: list[float], cache: Path,
                                                  compiler: Compiler) -> None:
    # The compiler's parent is the shell that ends it with the process, whose parent is the process.
    path = compiler('kill -9 "$(cut -d" " -f4 /proc/$PPID/stat)"; exit 1')
    killed = forked(SMALL, TF_STITCH_CACHE=str(cache), PATH=path)
    assert killed.returncode == -9
    done = forked(SMALL, TF_STITCH_CACHE=str(cache))
    check(done, expected)
    assert done.reasons() == ""


@contextmanager
def largest_file(nbytes: int) -> Iterator[None]:
    """Processes started inside cannot write more into a file: as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(run: Runner, expected: list[float], cache: Path) -> None:
    with largest_file(4096):
        done = run(SMALL, TF_STITCH_CACHE=str(cache))
    check(done, expected)
    assert "build: region" in done.said()
    assert "no report" in done.said()
    assert not [path for path in (cache / "kernels").iterdir() if path.suffix == ".so"]


def test_the_compiler_is_killed_once(forked: Runner, cache: Path, tmp_path: Path, compiler: Compiler) -> None:
    program, first = PROGRAMS / "goes_on.py", tmp_path / "was_here"
    path = compiler(f"[ -e {first} ] || {{ touch {first}; kill -9 $$; }}")
    done = forked(program, TF_STITCH_CACHE=str(cache), PATH=path)
    check(done, json.loads(forked(program, stitch="").stdout))
    assert "it is tried again" in done.stderr
    assert done.report is not None
    [region] = done.report["regions"]
    assert region["fallbacks"] > 0
    assert region["runs"] > 0


def test_the_compiler_is_killed(forked: Runner, expected: list[float], cache: Path, compiler: Compiler) -> None:
    done = forked(SMALL, TF_STITCH_CACHE=str(cache), PATH=compiler("kill -9 $$"))
    check(done, expected)
    assert done.report is not None
    assert sum(region["fallbacks"] for region in done.report["regions"]) > 0
    assert all(region["runs"] == 0 for region in done.report["regions"])
