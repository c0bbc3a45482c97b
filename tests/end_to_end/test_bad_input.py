"""What goes wrong around a program leaves its results alone, and is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.end_to_end.conftest import PROGRAMS, SMALL, Runner, check
from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library

GIGABYTES_NEEDED = 12


def tools(folder: Path, *names: str) -> str:
    """A PATH with these programs alone."""
    folder.mkdir()
    for name in names:
        for place in os.environ["PATH"].split(":"):
            if (Path(place) / name).exists() and not (folder / name).exists():
                (folder / name).symlink_to(Path(place) / name)
    return str(folder)


def test_nothing_wrong(run: Runner, expected: list[float], cache: Path) -> None:
    done = run(SMALL, stitch="strict", TF_STITCH_CACHE=str(cache))
    check(done, expected)
    assert done.stitched("train") > 0
    assert done.reasons() == ""


def test_unknown_variable(run: Runner) -> None:
    done = run(SMALL, TF_STITCH_TYPO="1")
    assert done.returncode != 0
    assert "TF_STITCH_TYPO" in done.stderr
    assert "TF_STITCH_PLANNER" in done.stderr  # the ones there are
    assert "Traceback" not in done.stderr


def test_value_that_is_not_allowed(run: Runner) -> None:
    done = run(SMALL, TF_STITCH_PLANNER="magic")
    assert done.returncode != 0
    assert "TF_STITCH_PLANNER='magic'" in done.stderr
    assert "ilp, greedy" in done.stderr


def test_no_compiler_at_all(forked: Runner, expected: list[float], tmp_path: Path) -> None:
    done = forked(SMALL, TF_STITCH_CACHE=str(tmp_path / "empty"), PATH=tools(tmp_path / "bin", "uname"))
    check(done, expected)
    assert "no C++ compiler" in done.said()


def test_no_compiler_for_kernels(forked: Runner, expected: list[float], cache: Path, tmp_path: Path) -> None:
    done = forked(SMALL, TF_STITCH_CACHE=str(cache), PATH=tools(tmp_path / "bin", "uname"))
    check(done, expected)
    assert "no C compiler" in done.said()
    assert "no C compiler" in done.reasons()


def test_filled_cache_without_a_compiler(forked: Runner, expected: list[float], cache: Path, tmp_path: Path) -> None:
    """As in an image that was built with a compiler and runs without one."""
    filling = forked(SMALL, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="0")
    assert filling.report is not None
    assert filling.report["caches"]["kernels"]["misses"] > 0
    done = forked(SMALL, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="0", PATH=tools(tmp_path / "bin", "uname"))
    check(done, expected)
    assert done.report is not None
    assert done.report["caches"]["kernels"]["misses"] == 0
    assert done.stitched("train") == filling.stitched("train") > 0
    assert done.reasons() == filling.reasons() == ""
    assert "compiler" not in done.said()


def test_compiler_that_fails(forked: Runner, expected: list[float], cache: Path, tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "g++", "sh", "echo")
    broken = tmp_path / "bin" / "gcc"
    broken.write_text("#!/bin/sh\necho out of luck >&2\nexit 1\n")
    broken.chmod(0o755)
    done = forked(SMALL, TF_STITCH_CACHE=str(cache), PATH=path)
    check(done, expected)
    assert "out of luck" in done.reasons()
    assert done.report is not None
    assert sum(region["fallbacks"] for region in done.report["regions"]) > 0
    strict = forked(SMALL, stitch="strict", TF_STITCH_CACHE=str(cache), PATH=path)
    assert strict.returncode != 0
    assert "out of luck" in strict.stderr


def copying_compiler(folder: Path) -> str:
    """A PATH whose g++ compiles nothing, and links the native libraries by copying those that are built."""
    compiler = folder / "bin" / "g++"
    compiler.parent.mkdir()
    built = {library.name: build_library(library, load_config().cache_dir) for library in (STITCH_OP, GRAPH_HOOK)}
    copies = "\n".join(f'*"-o "*/{name}" "*) exec cp {path} "$out";;' for name, path in built.items())
    compiler.write_text(f"""#!/bin/sh
for word; do case "$before" in -o) out=$word;; esac; before=$word; done
case "$*" in
{copies}
esac
: > "$out"
""")
    compiler.chmod(0o755)
    return f"{compiler.parent}:{os.environ['PATH']}"


def test_cache_that_cannot_be_written(forked: Runner, expected: list[float], tmp_path: Path) -> None:
    # A file where the folder should be: permissions do not stop root.
    (tmp_path / "file").write_text("")
    done = forked(SMALL, TF_STITCH_CACHE=str(tmp_path / "file" / "cache"), PATH=copying_compiler(tmp_path))
    check(done, expected)
    assert "temporary folder" in done.said()
    assert done.stitched("train") > 0


def test_corrupt_kernels_are_built_anew(forked: Runner, expected: list[float], cache: Path) -> None:
    check(forked(SMALL, TF_STITCH_CACHE=str(cache)), expected)
    kernels, plans = list((cache / "kernels").glob("*.so")), list((cache / "plans").iterdir())
    assert kernels
    assert plans
    for kernel in kernels:
        kernel.write_bytes(b"\x7fELF" + kernel.read_bytes()[:100])
    for plan in plans:
        plan.write_bytes(plan.read_bytes()[:-64] + b"\xff" * 64)
    done = forked(SMALL, TF_STITCH_CACHE=str(cache))
    check(done, expected)
    assert done.reasons() == ""
    assert done.report is not None
    for name, entries in (("kernels", kernels), ("plans", plans)):
        assert done.report["caches"][name] == {"hits": 0, "misses": len(entries), "corrupt": len(entries)}
    healed = forked(SMALL, TF_STITCH_CACHE=str(cache))
    assert healed.report is not None
    assert healed.report["caches"]["kernels"] == {"hits": len(kernels), "misses": 0, "corrupt": 0}


@pytest.mark.parametrize("what", ["truncated", "digest"])
def test_corrupt_native_library(forked: Runner, expected: list[float], cache: Path, what: str) -> None:
    """The hook, of one file, is built again in the test, the op would take minutes."""
    hook = build_library(GRAPH_HOOK, cache)
    if not hook.is_relative_to(cache):
        pytest.skip("a wheel's library is not to be damaged")
    whole = hook.read_bytes()
    hook.write_bytes(whole[:len(whole) // 2] if what == "truncated" else whole[:-64] + b"\xff" * 64)
    done = forked(SMALL, TF_STITCH_CACHE=str(cache))
    check(done, expected)
    assert "built graph_hook" in done.said()
    assert done.report is not None
    assert done.report["caches"]["native"] == {"hits": 2, "misses": 1, "corrupt": 1}  # the new one, and the op
    assert hook.read_bytes() == whole


def test_report_folder_that_cannot_be_written(forked: Runner, expected: list[float], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = forked(SMALL, TF_STITCH_REPORT=str(tmp_path / "file" / "report"))
    check(done, expected)
    assert "no report" in done.said()


def _gigabytes_free() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 2**20
    return 0.0


@pytest.mark.skipif(_gigabytes_free() < GIGABYTES_NEEDED, reason=f"needs {GIGABYTES_NEEDED} GB of free memory")
def test_more_elements_than_31_bits_count(forked: Runner) -> None:
    program = PROGRAMS / "two_gigabytes.py"
    plain, stitched = forked(program, stitch=""), forked(program)
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert stitched.returncode == 0, stitched.stderr[-3000:]
    assert json.loads(stitched.stdout) == json.loads(plain.stdout)
    assert stitched.stitched("mix") > 0
