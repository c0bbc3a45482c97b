"""Builders fail with a BuildError that says what to do, and leave nothing behind."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.runner import compiled, region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import BuildError, BuildInterruptedError, SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.runtime import host_builder
from tf_stitch.runtime.host_builder import build_host, has_host_kernels
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


def without_a_compiler(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """On a PATH with nothing but what loads a library."""
    patch.setenv("PATH", str(folder))
    host_builder.compiler.cache_clear()


def test_without_a_compiler_a_caches_kernels_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path / "cache")
    built = build_host(source, "native", cache)
    without_a_compiler(tmp_path, monkeypatch)
    assert build_host(source, "native", KernelCache(tmp_path / "cache")) == built
    with pytest.raises(BuildError, match=r"no C compiler .*kernels in .*/cache .*lack one; install.*prebuild"):
        build_host("int another;", "native", cache)


def test_kernels_of_two_compilers_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler those of the last one serve, and with one its own alone."""
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path / "cache")
    with monkeypatch.context() as patch:
        fake_gcc(tmp_path, patch, f'{shutil.which("gcc")} "$@"')
        other = build_host(source, "native", cache)
        build_host("int another;", "native", cache)
    host_builder.compiler.cache_clear()
    own = build_host(source, "native", cache)
    assert own != other
    without_a_compiler(tmp_path, monkeypatch)
    assert build_host(source, "native", cache) == own
    with pytest.raises(BuildError, match="no C compiler found"):
        build_host("int another;", "native", cache)


def test_a_damaged_record_of_the_compiler_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path)
    build_host(source, "native", cache)
    assert has_host_kernels(tmp_path)
    [record] = tmp_path.glob("*.txt")
    record.write_bytes(record.read_bytes().replace(b"g", b"h"))
    without_a_compiler(tmp_path, monkeypatch)
    assert not has_host_kernels(tmp_path)
    with pytest.raises(BuildError, match=r"no C compiler found \(gcc, cc or clang\); install"):
        build_host(source, "native", cache)


def test_a_rejected_source_names_the_compiler_and_leaves_nothing(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    with pytest.raises(BuildError, match="rejected a generated kernel") as error:
        build_host("this is no C", "native", cache)
    assert not isinstance(error.value, BuildInterruptedError), "it would be rejected again"
    assert not list(tmp_path.iterdir())


def fake_gcc(folder: Path, monkeypatch: pytest.MonkeyPatch, commands: str) -> None:
    """A gcc that runs shell commands rather than compile; $out is the file that it should write."""
    fake = folder / "bin" / "gcc"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo fake && exit 0\n'
                    f'out=$(echo "$*" | sed "s/.*-o \\([^ ]*\\).*/\\1/")\n{commands}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_compiler_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gcc(tmp_path, monkeypatch, f"sleep 300 & echo $! > {tmp_path}/child; sleep 300")
    monkeypatch.setattr(host_builder, "TIMEOUT_SECONDS", 1)
    start = time.monotonic()
    with pytest.raises(BuildError, match="did not finish within 1 s, and was ended") as error:
        build_host("int f;", "native", KernelCache(tmp_path / "cache"))
    assert not isinstance(error.value, BuildInterruptedError), "it would hang again"
    assert time.monotonic() - start < 10
    assert not list((tmp_path / "cache").iterdir())
    assert_ends(int((tmp_path / "child").read_text()))


def assert_ends(process: int) -> None:
    """A process that was killed is gone, or waits for init."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {process} runs on")


GARBAGE = {"nothing": "true", "an empty file": ': > "$out"', "text": 'echo out of luck > "$out"',
           "zeros": 'head -c 9000 /dev/zero > "$out"',
           "a part": f'{shutil.which("gcc")} "$@"; size=$(stat -c %s "$out"); truncate -s $((size / 2)) "$out"',
           "less than a header": f'{shutil.which("gcc")} "$@"; truncate -s 40 "$out"',
           "a page of code is lost": f'{shutil.which("gcc")} "$@"; dd if=/dev/zero of="$out" bs=4096 seek=1 count=1 '
                                     "conv=notrunc",
           "a hole": f'{shutil.which("gcc")} "$@"; head -c 4000 /dev/zero | dd of="$out" bs=1 seek=64 conv=notrunc'}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_a_compiler_wrote_is_loaded_before_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           garbage: str) -> None:
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path / "cache")
    with monkeypatch.context() as patch:
        fake_gcc(tmp_path, patch, f"{GARBAGE[garbage]}; exit 0")
        with pytest.raises(BuildInterruptedError, match="said that all went well, but what it wrote"):
            build_host(source, "native", cache)
    assert not list((tmp_path / "cache").iterdir())
    host_builder.compiler.cache_clear()
    assert build_host(source, "native", cache).exists(), "the next try works"


@pytest.mark.parametrize("end", [
    "kill -9 $$",
    'echo "gcc: fatal error: Killed signal terminated program cc1" >&2; exit 1',
    'echo "cc1: out of memory allocating 65536 bytes" >&2; exit 1',
    'echo "fatal error: error writing to /tmp/x.s: No space left on device" >&2; exit 1',
    'echo "gcc: fatal error: cannot execute cc1: vfork: Resource temporarily unavailable" >&2; exit 1',
    'echo "kernel.c:1:10: fatal error: math.h: Too many open files" >&2; exit 1',
    "exit 4",
])  # fmt: skip
def test_a_compiler_that_lacks_something_may_be_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
                                                            ) -> None:
    fake_gcc(tmp_path, monkeypatch, end)
    with pytest.raises(BuildInterruptedError, match="did not finish"):
        build_host("int f;", "native", KernelCache(tmp_path / "cache"))
    assert not list((tmp_path / "cache").iterdir())


def test_no_process_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, before = compiled(EXP, CPU).source, host_builder.run_compiler

    def no_memory(command: list[str], seconds: float) -> object:
        if "-o" in command:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return before(command, seconds)

    monkeypatch.setattr(host_builder, "run_compiler", no_memory)
    with pytest.raises(BuildInterruptedError, match=r"could not run.*Cannot allocate memory"):
        build_host(source, "native", KernelCache(tmp_path))


def test_the_second_build_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path)
    first = build_host(source, "native", cache)
    monkeypatch.setattr(host_builder, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build_host(source, "native", cache) == first


def test_a_header_is_part_of_what_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = compiled(EXP, CPU).source, KernelCache(tmp_path)
    first = build_host(source, "native", cache)
    monkeypatch.setattr(host_builder, "_headers", lambda: "static int another;")
    assert build_host(source, "native", cache) != first


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
def test_kernels_that_differ_in_the_users_names_alone_share_a_binary(tmp_path: Path, device: DeviceSpec) -> None:
    def built(name: str) -> tuple[str, Path]:
        b = Builder(SourceLoc(name, "Exp"))
        source = compiled(region("exp", [b.exp(b.input("x:0", DType.F32, (4, 8)))]), device).source
        cache = KernelCache(tmp_path)
        return source, build_cuda(source, "90", cache) if device.simt else build_host(source, "native", cache)

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
