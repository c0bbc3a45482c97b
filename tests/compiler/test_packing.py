"""Small kernels that do not depend on each other share a launch."""

from __future__ import annotations

from tests.differential.runner import compiled, region
from tests.support.layers import layers
from tf_stitch.compiler.packing import PACKED_SHARED_BYTES
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.runtime.executable import DeviceLaunch
from tf_stitch.transforms.matmuls_to_kernels import in_kernel

B = Builder()


def test_independent_kernels_share_a_launch() -> None:
    launches = compiled(region("layers", layers(24)), H200).executable.steps  # type: ignore[arg-type]
    assert len(launches) == 1
    assert isinstance(launches[0], DeviceLaunch)
    assert len(launches[0].args) == 48


def test_large_kernels_stand_alone() -> None:
    def launches(rows: int) -> int:
        inputs = [B.input(f"x{i}:0", DType.F32, (rows, 256)) for i in range(4)]
        return len(compiled(region("exps", [B.exp(x) for x in inputs]), H200).executable.steps)

    assert launches(64) == 1
    assert launches(1 << 12) == 4
    assert len({launches(size("n", rows)) for rows in (4, 64, 1 << 12)}) == 1, "all sizes have the same launches"
    assert launches(64 * size("n", 1) * size("m", 1)) == 4


def matmuls(*columns: int) -> list[Node]:
    """Of the same 16 rows, by kernels of ours, whose blocks have much shared memory."""
    rows = B.input("rows:0", DType.F32, (16, 768))
    return [in_kernel(B.dot(rows, B.input(f"w{i}:0", DType.F32, (768, n)))) for i, n in enumerate(columns)]


def test_blocks_of_equal_shared_memory_share_a_launch() -> None:
    """Query, key and value of a decoder; in clusters, too, of which every kernel has whole ones."""
    built = compiled(region("layer", matmuls(768, 768, 768)), H200)
    step, = built.executable.steps
    assert isinstance(step, DeviceLaunch)
    assert step.shared_bytes > PACKED_SHARED_BYTES
    clusters = {kernel.program.cluster for kernel in built.kernels}
    assert len(clusters) == 1
    assert all(kernel.program.grid % kernel.program.cluster == 0 for kernel in built.kernels)
    assert len(compiled(region("layer", matmuls(768, 16)), H200).executable.steps) == 2


def test_packs_end_where_kernel_parameters_end() -> None:
    steps = compiled(region("layers", layers(300)), H200).executable.steps  # type: ignore[arg-type]
    assert len(steps) == 2
    assert all(isinstance(s, DeviceLaunch) and len(s.args) * 8 <= 4096 for s in steps)
