"""Builders fail with a BuildError that says what to do, and leave nothing behind."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.runner import compiled, region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import BuildError, BuildInterruptedError, SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.runtime import host_builder, nvrtc_builder
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda

B = Builder()
EXP = region("exp", [B.exp(B.input("x:0", DType.F32, (4, 8)))])


@pytest.fixture(autouse=True)
def fresh_lookups() -> Iterator[None]:
    host_builder.compiler.cache_clear()
    yield
    host_builder.compiler.cache_clear()


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"no C compiler found.*install"):
        build_host(compiled(EXP, CPU).source, "native", KernelCache(tmp_path))


def test_a_rejected_source_names_the_compiler_and_leaves_nothing(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    with pytest.raises(BuildError, match="rejected a generated kernel") as error:
        build_host("this is no C", "native", cache)
    assert not isinstance(error.value, BuildInterruptedError), "it would be rejected again"
    assert not list(tmp_path.iterdir())


def test_a_compiler_that_hangs_or_is_killed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, before = compiled(EXP, CPU).source, subprocess.run

    def hang(command: list[str], **kwargs: object) -> object:
        if "-o" in command:
            raise subprocess.TimeoutExpired(command, 1)
        return before(command, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(host_builder.subprocess, "run", hang)
    with pytest.raises(BuildError, match="did not finish"):
        build_host(source, "native", KernelCache(tmp_path))
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())
    assert build_host(source, "native", KernelCache(tmp_path)).exists(), "the next try works"


@pytest.mark.parametrize("end", [
    "kill -9 $$",
    'echo "gcc: fatal error: Killed signal terminated program cc1" >&2; exit 1',
    'echo "cc1: out of memory allocating 65536 bytes" >&2; exit 1',
    'echo "fatal error: error writing to /tmp/x.s: No space left on device" >&2; exit 1',
])  # fmt: skip
def test_a_compiler_that_lacks_something_may_be_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
                                                            ) -> None:
    fake = tmp_path / "bin" / "gcc"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo fake && exit 0\n{end}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BuildInterruptedError, match="did not finish"):
        build_host("int f;", "native", KernelCache(tmp_path / "cache"))
    assert not list((tmp_path / "cache").iterdir())


def test_no_process_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, before = compiled(EXP, CPU).source, subprocess.run

    def no_memory(command: list[str], **kwargs: object) -> object:
        if "-o" in command:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return before(command, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(host_builder.subprocess, "run", no_memory)
    with pytest.raises(BuildInterruptedError, match=r"could not run.*Cannot allocate memory"):
        build_host(source, "native", KernelCache(tmp_path))


def test_the_second_build_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path)
    first = build_host(source, "native", cache)
    monkeypatch.setattr(host_builder, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build_host(source, "native", cache) == first


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
def test_kernels_that_differ_in_the_users_names_alone_share_a_binary(tmp_path: Path, device: DeviceSpec) -> None:
    def built(name: str) -> tuple[str, Path]:
        b = Builder(SourceLoc(name, "Exp"))
        source = compiled(region("exp", [b.exp(b.input("x:0", DType.F32, (4, 8)))]), device).source
        cache = KernelCache(tmp_path)
        return source, build_cuda(source, "90", cache) if device.is_gpu else build_host(source, "native", cache)

    (one, first), (other, second) = built("one"), built("other")
    assert one != other, "the source says what it computes"
    assert first == second


def test_a_corrupt_library_is_built_again(tmp_path: Path) -> None:
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path)
    path = build_host(source, "native", cache)
    good = path.read_bytes()
    path.write_bytes(b"\x7fELF broken")
    assert len(build_host(source, "native", cache).read_bytes()) == len(good)


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "bad.so").write_bytes(b"no library")
    with pytest.raises(BuildError, match="cannot load"):
        HostExecutable(compiled(EXP, CPU).executable, tmp_path / "bad.so")


def test_nvrtc_reports_its_log(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"NVRTC rejected.*error"):
        build_cuda("this is no CUDA", "90", KernelCache(tmp_path))
    assert not list(tmp_path.iterdir())


def test_nvrtc_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins
    importer = builtins.__import__

    def without_cupy(name: str, *args: object, **kwargs: object) -> object:
        if name.startswith("cupy"):
            raise ImportError("No module named 'cupy_backends'")
        return importer(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without_cupy)
    with pytest.raises(BuildError, match="install cupy"):
        build_cuda(compiled(EXP, H200).source, "90", KernelCache(tmp_path))


def test_cubins_come_from_the_cache_by_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = compiled(EXP, H200).source, KernelCache(tmp_path)
    first, other = build_cuda(source, "90", cache), build_cuda(source, "80", cache)
    assert first != other
    monkeypatch.setattr(nvrtc_builder, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build_cuda(source, "90", cache) == first
