"""NVRTC's builder fails with a BuildError that says what to do, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.differential.runner import compiled, region
from tf_stitch.device.spec import H200
from tf_stitch.errors import BuildError, BuildInterruptedError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.runtime import nvrtc_builder
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda

B = Builder()
EXP = region("exp", [B.exp(B.input("x:0", DType.F32, (4, 8)))])


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


@pytest.mark.parametrize(("said", "may_pass"), [
    ("NVRTC_ERROR_COMPILATION (6)", False), ("NVRTC_ERROR_INVALID_OPTION (5)", False),
    ("NVRTC_ERROR_OUT_OF_MEMORY (1)", True), ("NVRTC_ERROR_INTERNAL_ERROR (11)", True),
    ("NVRTC_ERROR_TIME_FILE_WRITE_FAILED (12)", True)])
def test_only_what_nvrtc_refuses_is_refused_for_good(said: str, may_pass: bool) -> None:
    nvrtc = SimpleNamespace(getProgramLog=lambda _: "kernel.cu(1): error")
    error = nvrtc_builder._failure(nvrtc, None, RuntimeError(said), "NVRTC rejected a generated kernel")
    assert isinstance(error, BuildInterruptedError) == may_pass
    assert said in error.message
