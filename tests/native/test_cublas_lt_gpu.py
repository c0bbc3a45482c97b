"""Matmuls of float8 of the native op on a GPU against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import Regions
from tf_stitch.device.spec import FLOAT8_ARCHITECTURE
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType
from tf_stitch.libraries.float8 import Float8Gemm
from tf_stitch.placement.executable import BufferRef, Executable, LibraryStep, encode
from tf_stitch.placement.executable_format import Space
from tf_stitch.runtime.device_query import compute_capability

GPUS = tf.config.list_physical_devices("GPU")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="no GPU"), pytest.mark.skipif(
    bool(GPUS) and int(compute_capability(0)) < FLOAT8_ARCHITECTURE, reason="no tensor cores for float8")]
E4M3, E5M2 = DType.F8_E4M3FN, DType.F8_E5M2


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
@pytest.mark.parametrize(("a", "b"), [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)])
@pytest.mark.parametrize("sizes", [(16, 16, 16), (32, 48, 64), (4096, 768, 3072), (1008, 2032, 528), (768, 768, 8192)])
def test_matmuls(regions: Regions, sizes: tuple[int, int, int], a: DType, b: DType, dtype: DType) -> None:
    m, n, k = sizes
    random = np.random.default_rng(m + n + k)
    x, w = (random.standard_normal(shape).astype(of.numpy) for shape, of in (((m, k), a), ((n, k), b)))
    scales = [np.float32(0.25), np.float32(0.75)]
    want = (x.astype(np.float64) @ w.astype(np.float64).T) * 0.1875
    refs = [BufferRef(Space.INPUT, i) for i in range(4)]
    e = Executable(("a", "b", "s", "t"), (), (TensorType(dtype, (m * n,)),), (), (),
                   (LibraryStep(Float8Gemm(dtype, a, b, m, n, k), (*refs, BufferRef(Space.OUTPUT, 0))),), None)
    region = regions.add(lambda key: encode(e, {}))
    step = 2.0 ** (-8 if dtype is DType.BF16 else -11)  # half of a half's spacing
    memory = [tf.constant(x.reshape(-1)), tf.constant(w.reshape(-1)), *map(tf.constant, scales)]
    with tf.device("/GPU:0"):
        for _ in range(5):  # the third tries the library's proposals on these buffers
            [out] = regions.call(region, [tf.identity(v) for v in memory], types=[dtype.numpy])
            np.testing.assert_allclose(out.numpy().astype(np.float64).reshape(m, n), want, rtol=step * 1.01,
                                       atol=1e-3 * np.abs(want).max())
    assert regions.library.region_runs(region) == 5
