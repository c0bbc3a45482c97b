"""The module: what Python writes, and what the native op makes of files that are not that."""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tf_stitch.atomic_file import write_verified
from tf_stitch.convert.kernels import Kernels, RegionKernels
from tf_stitch.convert.module_file import ALIGNMENT, FUNCTION, MAGIC, Module, reference
from tf_stitch.convert.targets import BuildTarget
from tf_stitch.device.spec import cpu_spec
from tf_stitch.errors import DamagedFileError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType
from tf_stitch.native.signatures import declare
from tf_stitch.placement.executable import BufferRef, Executable, HostLaunch, Space
from tf_stitch.runtime.device_profiles import profiles

KERNELS = b"kernels of one library"
FIRST_BLOB = 5  # words before: version, abi, count of blobs, offset and bytes of the first


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    """A region with two shapes and another with one; two libraries, of equal bytes for two processors."""
    target = BuildTarget("cpu", cpu_spec(profiles(tmp_path)["CPU"], 2), {0: "x86-64", 1: "x86-64-v3"})
    files = []
    for name, data in (("one", KERNELS), ("two", b"other")):
        for level in range(2):
            write_verified(tmp_path / f"{name}{level}", data)
        files.append({level: tmp_path / f"{name}{level}" for level in range(2)})

    def built(symbol: str, library: int, rows: int) -> RegionKernels:
        out = BufferRef(Space.OUTPUT, 0)
        kind = TensorType(DType.F32, (rows,))
        executable = Executable(("i0",), (), (kind,), (), (), (HostLaunch(symbol, (out,)),), None)
        return RegionKernels(executable, {symbol: library}, 1, 0)

    return Kernels(target, {(0, ((3,),)): built("k", 0, 3), (0, ((4,),)): built("k", 0, 4),
                            (1, ((3,),)): built("l", 1, 3)}, sources=["", ""], files=files)


def parts(data: bytes) -> tuple[list[int], bytes]:
    """Words of the head, and the blobs."""
    assert data.startswith(MAGIC)
    start = len(MAGIC) + 8
    [count] = struct.unpack_from("<q", data, len(MAGIC))
    return list(struct.unpack_from(f"<{count}q", data, start)), data[start + 8 * count:]


def test_equal_kernels_are_written_once_and_named_by_their_hash(kernels: Kernels) -> None:
    module = Module(2)
    module.add(kernels)
    head, blobs = parts(module.data())
    assert head[2] == 2
    assert blobs == KERNELS.ljust(ALIGNMENT, b"\0") + b"other".ljust(ALIGNMENT, b"\0")
    assert struct.pack("<4q", *head[FIRST_BLOB:FIRST_BLOB + 4]) == hashlib.sha256(KERNELS).digest()
    assert [one["sha256"] for one in module.hashes()] == [hashlib.sha256(b).hexdigest() for b in (KERNELS, b"other")]
    assert head.count(reference(FUNCTION, 0)) == 2
    assert head.count(reference(FUNCTION, 1)) == 1


def test_the_digest_is_that_of_the_head(kernels: Kernels) -> None:
    module = Module(2)
    module.add(kernels)
    data = module.data()
    assert module.digest == hashlib.sha256(data[:-len(parts(data)[1])]).hexdigest()
    assert module.data() == data


def test_regions_that_were_given_up_leave_no_kernels(kernels: Kernels) -> None:
    module = Module(2)
    module.add(kernels, {0})
    head, blobs = parts(module.data())
    assert blobs == b"other".ljust(ALIGNMENT, b"\0")
    assert reference(FUNCTION, 1) not in head
    empty = Module(2)
    empty.add(kernels, {0, 1})
    assert parts(empty.data())[1] == b""


def test_a_damaged_file_of_the_cache_is_refused(kernels: Kernels) -> None:
    kernels.files[0][1].write_bytes(b"damaged")
    with pytest.raises(DamagedFileError):
        Module(2).add(kernels)


@pytest.fixture(scope="session")
def load(op_library: Path) -> Callable[[Path, str], Any]:
    """Runs StitchModule."""
    ops = tf.load_op_library(str(op_library))
    return lambda path, digest: ops.stitch_module(path=tf.constant(str(path)), digest=digest)


@pytest.mark.parametrize(("damage", "said"), [
    (lambda d: d[:10], "is no module"), (lambda d: b"", "is no module"), (lambda d: b"x" + d[1:], "is no module"),
    (lambda d: d[:60], "ends early"), (lambda d: d[:16] + struct.pack("<q", -1) + d[24:], "ends early"),
    (lambda d: d[:16] + struct.pack("<q", 1 << 61) + d[24:], "ends early"),
    (lambda d: d[:24] + b"\x09" + d[25:], "not the one that the model names"),
    (lambda d: d[:-ALIGNMENT - 1], "offset")], ids=range(8))
def test_files_that_are_no_module_are_refused_with_the_reason(
        damage: Callable[[bytes], bytes], said: str, kernels: Kernels, load: Callable[[Path, str], Any],
        tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    module = Module(2)
    module.add(kernels)
    path = tmp_path / "module"
    path.write_bytes(damage(module.data()))
    load(path, module.digest)
    error = capfd.readouterr().err
    assert "a converted model runs TensorFlow's own ops" in error
    assert said in error


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(("make", "said"), [
    (make_fifo, "no regular file"), (Path.mkdir, "no regular file"), (make_sparse, "at most 2147483648"),
    (lambda path: path.symlink_to("/dev/zero"), "no regular file"), (lambda path: None, "No such file")],
    ids=["fifo", "folder", "sparse", "device", "missing"])
def test_what_is_no_file_of_a_possible_size_is_not_read(
        make: Callable[[Path], None], said: str, load: Callable[[Path, str], Any], tmp_path: Path,
        capfd: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "module")
    load(tmp_path / "module", "no digest")
    assert said in capfd.readouterr().err


def test_modules_come_from_allowed_folders_alone(
        kernels: Kernels, load: Callable[[Path, str], Any], op_library: Path, tmp_path: Path,
        capfd: pytest.CaptureFixture[str]) -> None:
    module, allowed, beside = Module(2), tmp_path / "models", tmp_path / "models2"
    module.add(kernels)
    for folder in (allowed, beside):
        folder.mkdir()
        (folder / "module").write_bytes(module.data())
    (allowed / "link").symlink_to(beside / "module")
    restrict = declare(ctypes.CDLL(str(op_library))).tfs_restrict_modules
    try:
        restrict(str(allowed).encode())
        for path in (beside / "module", allowed / "link", allowed / ".." / "models2" / "module"):
            load(path, module.digest)
            assert "TF_STITCH_MODULES" in capfd.readouterr().err
        load(allowed / "module", module.digest)
        assert capfd.readouterr().err == ""
    finally:
        restrict(b"/")  # other tests of this process


def test_a_module_is_read(kernels: Kernels, load: Callable[[Path, str], Any], tmp_path: Path,
                          capfd: pytest.CaptureFixture[str]) -> None:
    module = Module(2)
    module.add(kernels)
    (tmp_path / "module").write_bytes(module.data())
    load(tmp_path / "module", module.digest)
    assert "[tf_stitch]" not in capfd.readouterr().err
    load(tmp_path / "module", "0" * 64)
    assert "not the one that the model names" in capfd.readouterr().err
    load(tmp_path / "gone", "1" * 64)
    assert "could not be read" in capfd.readouterr().err


def test_a_version_of_later_is_refused(load: Callable[[Path, str], Any], tmp_path: Path,
                                       capfd: pytest.CaptureFixture[str]) -> None:
    front = MAGIC + struct.pack("<2q", 1, 99)
    (tmp_path / "module").write_bytes(front)
    load(tmp_path / "module", hashlib.sha256(front).hexdigest())
    assert "of another version of tf_stitch: convert the model anew" in capfd.readouterr().err
    assert np.frombuffer(front[-8:], np.int64)[0] == 99
