"""The builder, on a library of a few lines."""

from __future__ import annotations

import errno
import stat
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.errors import NativeError
from tf_stitch.native import build
from tf_stitch.native.build import GRAPH_HOOK, Library, build_library

TINY = Library("tiny", ("tiny.cc",), links_tensorflow=False)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "tiny.cc").write_text("int tiny() { return 1; }\n")
    monkeypatch.setattr(build, "SOURCE_DIR", folder)
    return folder / "tiny.cc"


def test_name_says_version_and_source(source: Path, tmp_path: Path) -> None:
    first = build_library(TINY, tmp_path / "cache")
    assert first.name.startswith(f"tiny-tf{tf.version.VERSION}-")
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert build_library(TINY, tmp_path / "cache") == first
    source.write_text("int tiny() { return 2; }\n")
    assert build_library(TINY, tmp_path / "cache") != first


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
    monkeypatch.setattr(build, "_compile", lambda *arguments: (compiled.append(1), compile_library(*arguments)))
    threads = [threading.Thread(target=build_library, args=(TINY, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert len(list((tmp_path / "native").glob("*.so*"))) == 1


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
    monkeypatch.setattr(build, "COMPILERS", ("no-such-compiler",))
    assert build_library(TINY, tmp_path) == path


def test_hook_links_no_tensorflow() -> None:
    path = build_library(GRAPH_HOOK, load_config().cache_dir)
    symbols = subprocess.run(["nm", "-DuC", str(path)], capture_output=True, text=True, check=True).stdout
    wanted = [line for line in symbols.splitlines() if "tensorflow" in line or " TF_" in line or "absl" in line]
    assert not wanted
