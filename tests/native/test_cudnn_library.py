"""A cuDNN that is missing, of another version or without functions is not used, and that is said."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
import tensorflow as tf

from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.jit import libraries
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.report.report import Report

pytestmark = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="TensorFlow has loaded a cuDNN")

FAKE = Path(__file__).with_name("fake_cudnn.cc")


class WithCublas:
    """The native op, with a cuBLASLt."""

    def __init__(self, library: OpLibrary) -> None:
        self._library = library

    def load_cublas_lt(self, files: Sequence[str]) -> str:
        return ""

    def load_cudnn(self, files: Sequence[str]) -> str:
        return self._library.load_cudnn(files)

    def cudnn_version(self) -> int:
        return self._library.cudnn_version()


@pytest.mark.parametrize(("options", "why"), [
    (["-DCUDNN_VERSION=8907"], "this cuDNN has version 8907, not 9"),
    (["-DCUDNN_VERSION=89999"], "this cuDNN has version 89999, not 9"),
    (["-DCUDNN_VERSION=100000"], "this cuDNN has version 100000, not 9"),
    (["-DcudnnBackendExecute=other"], "this cuDNN lacks functions"),
    (None, "no cuDNN 9 library")], ids=["8.9", "before 9", "10", "without functions", "no file"])
def test_regions_hold_no_convolutions_then(library: OpLibrary, options: list[str] | None, why: str, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "libfake.so"
    if options is not None:
        subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", *options, str(FAKE), "-o", str(file)], check=True)
    monkeypatch.setattr(libraries, "cudnn_files", lambda: [str(file)])
    report = Report()
    found = libraries.Libraries("region", cast("OpLibrary", WithCublas(library)), report)
    for _ in range(2):
        assert found.devices("GPU", convolutions=True) == {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL}
    assert not found.has_fused_attention
    [entry] = report.document()["fallbacks"]
    assert (entry["stage"], entry["where"], entry["count"]) == ("library", "convolutions", 1)
    assert entry["reason"] == f"{why}: regions hold none"
    [remark] = report.document()["remarks"]
    assert remark["reason"] == f"{why}: kernels of ours compute them"
    assert library.cudnn_version() == 0
