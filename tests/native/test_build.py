"""The builder, on a library of a few lines."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.errors import NativeError
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.native import build
from tf_stitch.native.build import GRAPH_HOOK, Library, build_library, find_library, is_portable

TINY = Library("tiny", ("tiny.cc",), links_tensorflow=False)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "tiny.cc").write_text("int tiny() { return 1; }\n")
    monkeypatch.setattr(build, "SOURCE_DIR", folder)
    return folder / "tiny.cc"


def change(file: Path, text: str) -> None:
    """As between two processes: one reads its sources once."""
    file.write_text(text)
    build._sources.cache_clear()


def test_sources_are_read_once(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import tensorflow` looks for two libraries, in two forms, by names that depend on all of them."""
    (source.parent / "tiny.h").write_text("#pragma once\n")
    read: list[str] = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or read_bytes(path))
    for library in (TINY, GRAPH_HOOK, TINY):
        find_library(Library(library.name, TINY.sources, links_tensorflow=False), tmp_path)
    assert sorted(name for name in read if name.endswith((".cc", ".h"))) == ["tiny.cc", "tiny.h"]


def test_name_says_version_and_source(source: Path, tmp_path: Path) -> None:
    first = build_library(TINY, tmp_path / "cache")
    assert first.name.startswith(f"tiny-tf{tf.version.VERSION}-")
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert build_library(TINY, tmp_path / "cache") == first
    change(source, "int tiny() { return 2; }\n")
    assert build_library(TINY, tmp_path / "cache") != first


def test_what_is_no_source_is_no_part_of_the_sources(source: Path) -> None:
    """Python writes what it compiled beside them, as `bindings.cpython-311.pyc`."""
    before = build.sources_digest()
    (source.parent / "__pycache__").mkdir()
    (source.parent / "__pycache__" / "bindings.cpython-311.pyc").write_bytes(b"x")
    assert build.sources_digest() == before
    change(source.parent / "tiny.h", "#pragma once\n")
    assert build.sources_digest() != before


def test_a_portable_library_serves_where_none_was_built(source: Path, tmp_path: Path) -> None:
    special = [f"cpu/host_blocks_{name}.cc" for name in ("baseline", "avx2", "avx512")]
    (source.parent / "cpu").mkdir()
    for name in special:
        (source.parent / name).write_text("")
    library = Library("tiny", ("tiny.cc", *special), links_tensorflow=False)
    own, portable = build_library(library, tmp_path / "own"), build_library(library, tmp_path / "all", portable=True)
    assert own.name != portable.name
    assert build_library(library, tmp_path / "all") == portable
    assert find_library(library, tmp_path / "all") == (portable, "")
    assert build_library(library, tmp_path / "own", portable=True).name == portable.name
    assert build_library(library, tmp_path / "own").name == portable.name, "which others need, too: one is loaded"
    assert is_portable(library, portable)
    assert not is_portable(library, own)


def test_a_finished_library_waits_for_nobody(source: Path, tmp_path: Path) -> None:
    path = build_library(TINY, tmp_path)
    with build._locked(path.parent / "tiny.lock"):
        again = threading.Thread(target=build_library, args=(TINY, tmp_path), daemon=True)
        again.start()
        again.join(20)
        assert not again.is_alive()


def test_another_tensorflow_is_another_file(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_library(TINY, tmp_path)
    monkeypatch.setattr(tf.version, "VERSION", "9.9.9")
    assert build_library(TINY, tmp_path).name != first.name


def test_concurrent_builds_compile_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []
    compile_library = build._compile
    monkeypatch.setattr(build, "_compile", lambda *arguments: compiled.append(1) or compile_library(*arguments))
    threads = [threading.Thread(target=build_library, args=(TINY, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert len(list((tmp_path / "native").glob("*.so*"))) == 1


@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_a_damaged_library_is_made_anew(source: Path, tmp_path: Path, keep: float) -> None:
    """The loader of a truncated one would end the process."""
    path = build_library(TINY, tmp_path)
    whole = path.read_bytes()
    os.truncate(path, int(len(whole) * keep))
    counted = build.native_cache(tmp_path).counts()["corrupt"]
    assert build_library(TINY, tmp_path) == path
    assert len(path.read_bytes()) == len(whole)
    assert build.native_cache(tmp_path).counts()["corrupt"] == counted + 1


GARBAGE = {"nothing": "true", "text": 'echo out of luck > "$out"',
           "a part": f'{shutil.which("g++")} "$@"; size=$(stat -c %s "$out"); truncate -s $((size / 2)) "$out"'}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_library_is_tried_before_it_is_kept(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                              garbage: str) -> None:
    fake_compiler(tmp_path, monkeypatch, f'case "$*" in *-shared*) {GARBAGE[garbage]}; exit 0;; esac')
    with pytest.raises(NativeError, match="what it wrote"):
        build_library(TINY, tmp_path)
    assert not list((tmp_path / "native").glob("*.so*"))


def test_a_library_that_ends_the_process_that_loads_it_is_not_kept(source: Path, tmp_path: Path) -> None:
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) void fail() { abort(); }\n")
    with pytest.raises(NativeError, match="cannot be loaded"):
        build_library(TINY, tmp_path)
    assert not list((tmp_path / "native").glob("*.so*"))


def fake_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, commands: str) -> None:
    """A g++ that runs shell commands before it compiles; $out is the file that it should write."""
    script = folder / "fake_g++"
    script.write_text('#!/bin/sh\nout=$(echo "$*" | sed "s/.*-o \\([^ ]*\\).*/\\1/")\n'
                      f'{commands}\nexec {shutil.which("g++")} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(build, "COMPILERS", (str(script),))


def test_a_compiler_that_hangs(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compiler(tmp_path, monkeypatch, "sleep 300")
    monkeypatch.setattr(build, "COMPILE_SECONDS", 1)
    with pytest.raises(NativeError, match="did not finish within 1 s, and was ended"):
        build_library(TINY, tmp_path)


def test_a_rejected_source_ends_the_others(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source.parent / "other.cc").write_text("int other() { return nothing_here; }\n")
    fake_compiler(tmp_path, monkeypatch, 'case "$*" in *-c*tiny.cc*) sleep 300;; esac')
    start = time.monotonic()
    with pytest.raises(NativeError, match=r"(?s)could not build two.*nothing_here"):
        build_library(Library("two", ("other.cc", "tiny.cc"), links_tensorflow=False), tmp_path)
    assert time.monotonic() - start < 60


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources that were compiled."""
    compiled, run_compiler = [], build.run_compiler

    def counted(command: list[str], *rest: Any) -> Any:
        compiled.extend(part for part in command if part.endswith(".cc"))
        return run_compiler(command, *rest)

    monkeypatch.setattr(build, "run_compiler", counted)
    return compiled


def fails(folder: Path) -> str:
    with pytest.raises(NativeError) as caught:
        build_library(TINY, folder)
    return str(caught.value)


def test_a_failure_is_remembered(source: Path, tmp_path: Path, runs: list[str]) -> None:
    source.write_text("int tiny() { return nothing_here; }\n")
    first, again = fails(tmp_path), fails(tmp_path)
    assert len(runs) == 1
    assert len(first.splitlines()) > 1
    assert len(again.splitlines()) == 1
    assert "nothing_here" in again
    assert "not tried again until compiler, TensorFlow or tf_stitch change" in again
    change(source, "int tiny() { return 3; }\n")
    assert build_library(TINY, tmp_path).exists()


@pytest.mark.parametrize("change", ["compiler", "tensorflow", "removed"])
def test_a_failure_is_tried_again_when_something_changes(source: Path, tmp_path: Path, runs: list[str], change: str,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compiler(tmp_path, monkeypatch, 'case "$*" in *-c*) echo "tiny.cc:1:5: error: out of luck" >&2; exit 1;; esac')
    fails(tmp_path)
    fails(tmp_path)
    assert len(runs) == 1
    if change == "compiler":
        fake_compiler(tmp_path, monkeypatch, "")
        assert build_library(TINY, tmp_path).exists()
        assert not list((tmp_path / "native").glob("*.failed"))
    elif change == "tensorflow":
        monkeypatch.setattr(tf.version, "VERSION", "9.9.9")
        fails(tmp_path)
    else:
        [kept] = (tmp_path / "native").glob("*.failed")
        kept.unlink()
        fails(tmp_path)
    assert len(runs) == 2


PASSING = ["kill -9 $$", 'echo "fatal error: Killed signal terminated cc1plus" >&2; exit 1',
           'echo "g++: fatal error: cannot execute cc1plus: vfork: Resource temporarily unavailable" >&2; exit 1',
           'echo "tiny.cc:1:1: fatal error: tiny.h: Too many open files" >&2; exit 1',
           'echo "/usr/bin/ld: final link failed: Disk quota exceeded" >&2; exit 1', "exit 1"]


@pytest.mark.parametrize("commands", PASSING)
def test_a_failure_that_may_pass_is_not_remembered(source: Path, tmp_path: Path, commands: str, runs: list[str],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compiler(tmp_path, monkeypatch, commands)
    fails(tmp_path)
    fails(tmp_path)
    assert len(runs) == 2


def test_a_compiler_that_hangs_today_may_not_tomorrow(source: Path, tmp_path: Path, runs: list[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compiler(tmp_path, monkeypatch, "sleep 300")
    monkeypatch.setattr(build, "COMPILE_SECONDS", 0.2)
    fails(tmp_path)
    fails(tmp_path)
    assert len(runs) == 2


def test_a_library_that_cannot_be_loaded_today(source: Path, tmp_path: Path, runs: list[str]) -> None:
    """As one on a disk that may not be executed from: "failed to map segment"."""
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) void fail() { exit(1); }\n")
    fails(tmp_path)
    fails(tmp_path)
    assert len(runs) == 2


def test_a_build_is_said_before_and_after(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is no terminal, which has a line of progress."""
    said_before = []
    compiled = build._compiled
    monkeypatch.setattr(build, "_compiled", lambda *rest: (said_before.append(capsys.readouterr().err),
                                                           compiled(*rest))[1])
    build_library(TINY, tmp_path)
    assert said_before == ["[tf_stitch] building tiny for this TensorFlow, once; it may take minutes\n"]
    assert "built tiny for this TensorFlow in " in capsys.readouterr().err


def test_a_library_that_lacks_a_function(source: Path, tmp_path: Path, runs: list[str]) -> None:
    source.write_text("int nobody_has(); int tiny() { return nobody_has(); }\n__attribute__((constructor)) void now() "
                      "{ tiny(); }\n")
    fails(tmp_path)
    assert "undefined symbol" in fails(tmp_path)
    assert len(runs) == 1


def test_the_load_check_imports_nothing_from_the_working_folder(source: Path, tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "ctypes.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w'); raise ImportError('not the real one')")
    monkeypatch.chdir(shared)
    assert build_library(TINY, tmp_path).exists()
    assert not (tmp_path / "ran").exists()


def test_no_more_threads(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(build.ThreadPoolExecutor, "submit", refuse)
    assert "can't start new thread" in fails(tmp_path)
    assert not list((tmp_path / "native").glob("*.failed"))


def test_compiler_message(source: Path, tmp_path: Path) -> None:
    source.write_text("int tiny() { return nothing_here; }\n")
    with pytest.raises(NativeError, match=r"(?s)could not build tiny.*nothing_here"):
        build_library(TINY, tmp_path)
    assert not list((tmp_path / "native").glob("*.so*"))


def test_no_compiler(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(NativeError, match="install g\\+\\+"):
        build_library(TINY, tmp_path)


def test_unsafe_or_impossible_folder(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared" / "native"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    assert shared not in build_library(TINY, tmp_path / "shared").parents
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert build_library(TINY, blocked).exists()
    assert "other users" in capsys.readouterr().err


def test_a_folder_that_is_only_read(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container's image, where there may be no compiler."""
    path = build_library(TINY, tmp_path)

    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    build.native_cache.cache_clear()
    monkeypatch.setattr(build, "COMPILERS", ("no-such-compiler",))
    assert build_library(TINY, tmp_path) == path


def test_the_op_holds_all_that_libraries_need() -> None:
    sources = build.STITCH_OP.sources
    assert len(sources) == len(set(sources))
    assert {source for library in LIBRARIES for source in library.sources} <= set(sources)


def test_hook_links_no_tensorflow() -> None:
    path = build_library(GRAPH_HOOK, load_config().cache_dir)
    symbols = subprocess.run(["nm", "-DuC", str(path)], capture_output=True, text=True, check=True).stdout
    wanted = [line for line in symbols.splitlines() if "tensorflow" in line or " TF_" in line or "absl" in line]
    assert not wanted


def test_processes_that_build_at_once_compile_once(source: Path, tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from tf_stitch.native import build
build.SOURCE_DIR = Path({str(source.parent)!r})
compile_library = build._compile
def compiled(*arguments):
    print("compiled", flush=True)
    return compile_library(*arguments)
build._compile = compiled
path = build.build_library(build.Library("tiny", ("tiny.cc",), links_tensorflow=False), Path({str(tmp_path)!r}))
import ctypes
assert ctypes.CDLL(str(path))._Z4tinyv() == 1
"""
    processes = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=250)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert "".join(said).count("compiled") == 1


def test_a_lock_that_nobody_gives_back_is_not_waited_for_forever(source: Path, tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "COMPILE_SECONDS", 1)
    monkeypatch.setattr(build, "_compile", lambda *_: b"")
    folder = build.native_cache(tmp_path).folder
    with build._locked(folder / "tiny.lock"), pytest.raises(NativeError, match="what it wrote"):
        build_library(TINY, tmp_path)
