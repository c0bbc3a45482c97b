"""Sums in a stream of their own, of one GPU: behind a region's CUDA graph as a whole, and behind a part of it; before a
region, and before a part of it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import ARENA, INPUT, OUTPUT, Regions
from tests.native.test_stitch_op_gpu import IMAGE, increment
from tf_stitch.runtime.device_query import nccl_files

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]


@pytest.mark.parametrize("early", [True, False])
def test_a_sum_beside_the_rest_of_a_region(regions: Regions, early: bool) -> None:
    """Its input is one increment from the region's; the other output comes after many slow ones."""
    assert regions.library.load_nccl(nccl_files()) == ""
    rest = [increment((ARENA, 0), (ARENA, 0), kernel="slow_increment_to") for _ in range(4)]
    steps = [increment((INPUT, 0), (OUTPUT, 0)), increment((INPUT, 0), (ARENA, 0)), *rest,
             increment((ARENA, 0), (OUTPUT, 1))]  # fmt: skip
    region = regions.add(lambda key: IMAGE.executable([[8], [8]], steps, arena=(256,)))
    ops = regions.library.raw_ops

    @tf.function(autograph=False)
    def step(x: tf.Tensor, instance: tf.Tensor) -> list[tf.Tensor]:
        first, second = ops.stitch_op(inputs=[x], variables=[], Tout=[tf.float32] * 2, region=region,
                                      output_shapes=[], early=[0] if early else [])
        total = ops.stitch_all_reduce(input=first, instance_key=instance, group="one", size=1, rank=0, early=early)
        return [total * 2.0, second]

    with tf.device("/GPU:0"):
        for i in range(12):
            total, second = step(tf.range(8, dtype=tf.float32) + float(i), tf.constant(i))
            np.testing.assert_array_equal(total, (np.arange(8) + i + 1) * 2)
            np.testing.assert_array_equal(second, np.arange(8) + i + 6)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    assert (record.graphs, record.failures, record.error) == (1, 0, "")


@pytest.mark.parametrize("late", [True, False])
def test_a_sum_beside_the_start_of_a_region(regions: Regions, late: bool) -> None:
    """Kernels that do not read the sum need not wait for it; the one that does gets it."""
    assert regions.library.load_nccl(nccl_files()) == ""
    rest = [increment((ARENA, 0), (ARENA, 0), kernel="slow_increment_to") for _ in range(4)]
    steps = [increment((INPUT, 1), (ARENA, 0)), *rest, increment((ARENA, 0), (OUTPUT, 0)),
             increment((INPUT, 0), (OUTPUT, 1))]  # fmt: skip
    region = regions.add(lambda key: IMAGE.executable([[8], [8]], steps, arena=(256,)))
    ops = regions.library.raw_ops

    @tf.function(autograph=False)
    def step(x: tf.Tensor, instance: tf.Tensor) -> list[tf.Tensor]:
        total = ops.stitch_all_reduce(input=x * 3.0, instance_key=instance, group="one", size=1, rank=0, late=late)
        slow, got = ops.stitch_op(inputs=[total, x], variables=[], Tout=[tf.float32] * 2, region=region,
                                  output_shapes=[], late=[0] if late else [])
        return [slow, got]

    with tf.device("/GPU:0"):
        for i in range(12):
            slow, got = step(tf.range(8, dtype=tf.float32) + float(i), tf.constant(i))
            np.testing.assert_array_equal(slow, np.arange(8) + i + 6)
            np.testing.assert_array_equal(got, (np.arange(8) + i) * 3 + 1)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    assert (record.graphs, record.failures, record.error) == (1, 0, "")
