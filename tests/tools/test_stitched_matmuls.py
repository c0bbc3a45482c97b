"""What tools/stitched_matmuls.py times: regions that do their steps many times over."""

from __future__ import annotations

from pathlib import Path

from tests.differential.runner import compiled, region
from tf_stitch.atomic_file import write_verified
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.jit.kernel_library import KernelLibrary
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark.region_runner import repeated

B = Builder()


def test_a_region_of_a_call_and_a_kernel_three_times(tmp_path: Path) -> None:
    x, w = B.input("x:0", DType.F32, (512, 512)), B.input("w:0", DType.F32, (512, 512))
    built = compiled(region("g", [B.op(K.TANH, B.dot(x, w))]), H200)
    assert len(built.calls) == len(built.kernels) == 1
    write_verified(tmp_path / "all.cubin", b"kernels")
    kernels = KernelLibrary(KernelCache(tmp_path / "cache"))
    found = [repeated(built, n, tmp_path / "all.cubin", kernels) for n in (1, 2, 3)]
    assert all(len(images) == 1 for _, images in found)
    once, twice, thrice = (len(words) for words, _ in found)
    assert twice - once == thrice - twice > 0
