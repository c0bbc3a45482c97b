"""Two GPUs get each other's tensors: early, from a region's CUDA graph, and late, for another one's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import ARENA, INPUT, OUTPUT, Regions
from tests.native.test_stitch_op_gpu import IMAGE, increment

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(len(tf.config.list_physical_devices("GPU")) < 2, reason="fewer than two GPUs")]


def in_no_order(members: Callable[..., list[tf.Tensor]], *specs: tf.TensorSpec) -> Callable[..., list[tf.Tensor]]:
    """The function as a graph in which ops wait for what they read alone. In a tf.function an op with state waits for
    the one before: members of one exchange would wait for each other."""
    made: Callable[..., list[tf.Tensor]] = tf.compat.v1.wrap_function(members, specs)
    return made


@pytest.mark.parametrize("shape", [(1,), (3, 1 << 20), (0, 4)], ids=str)
def test_what_arrives(regions: Regions, shape: tuple[int, ...]) -> None:
    ops = regions.library.raw_ops

    def members(x: tf.Tensor, instance: tf.Tensor) -> list[tf.Tensor]:
        found = []
        for rank in range(2):
            with tf.device(f"/GPU:{rank}"):
                own = x + float(1000 * rank)
                other = ops.stitch_exchange(input=own, instance_key=instance, group="two", size=2, rank=rank)
                found.append(own - other)
        return found

    step = in_no_order(members, tf.TensorSpec(shape), tf.TensorSpec((), tf.int32))
    values = np.random.default_rng(0).integers(0, 1000, shape).astype(np.float32)
    for i in range(8):
        with tf.device("/GPU:0"):
            first, second = step(tf.constant(values) + float(i), tf.constant(i))
        np.testing.assert_array_equal(first, np.full(shape, -1000, np.float32))
        np.testing.assert_array_equal(second, np.full(shape, 1000, np.float32))


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_between_regions(regions: Regions, early: bool, late: bool) -> None:
    """Each GPU's first region gives x + 1 while it goes on; the second one reads what came of it, and what the other
    GPU gave. Many steps: memory is used again, and nobody waits on the host."""
    rest = [increment((ARENA, 0), (ARENA, 0), kernel="slow_increment_to") for _ in range(4)]
    before = [increment((INPUT, 0), (OUTPUT, 0)), increment((INPUT, 0), (ARENA, 0)), *rest,
              increment((ARENA, 0), (OUTPUT, 1))]  # fmt: skip
    behind = [increment((INPUT, 0), (ARENA, 0)), *rest, increment((ARENA, 0), (OUTPUT, 0)),
              increment((INPUT, 1), (OUTPUT, 1))]  # fmt: skip
    passes = [regions.add(lambda key: IMAGE.executable([[8], [8]], before, arena=(256,))) for _ in range(2)]
    updates = [regions.add(lambda key: IMAGE.executable([[8], [8]], behind, arena=(256,))) for _ in range(2)]
    ops = regions.library.raw_ops

    def members(*arguments: tf.Tensor) -> list[tf.Tensor]:
        *xs, instance = arguments
        found = []
        for rank, x in enumerate(xs):
            with tf.device(f"/GPU:{rank}"):
                own, more = ops.stitch_op(inputs=[x], variables=[], Tout=[tf.float32] * 2, region=passes[rank],
                                          output_shapes=[], early=[0] if early else [])
                other = ops.stitch_exchange(input=own, instance_key=instance, group="two", size=2, rank=rank,
                                            early=early, late=late)
                slow, got = ops.stitch_op(inputs=[own, other], variables=[], Tout=[tf.float32] * 2,
                                          region=updates[rank], output_shapes=[], late=[1] if late else [])
                found += [more, slow, got]
        return found

    step = in_no_order(members, *[tf.TensorSpec(8)] * 2, tf.TensorSpec((), tf.int32))
    with tf.device("/GPU:0"):
        given = [[tf.range(8, dtype=tf.float32) + float(10 * i + 5 * rank) for rank in range(2)] for i in range(40)]
    results = [step(*xs, tf.constant(i)) for i, xs in enumerate(given)]
    for i, found in enumerate(results):
        for rank in range(2):
            more, slow, got = found[3 * rank:3 * rank + 3]
            own, other = (np.arange(8) + 10 * i + 5 * r for r in (rank, 1 - rank))
            np.testing.assert_array_equal(more, own + 6)
            np.testing.assert_array_equal(slow, own + 7)
            np.testing.assert_array_equal(got, other + 2)
    records = [r for r in regions.library.graphs() if r.region in (*passes, *updates)]
    assert [(r.graphs, r.failures, r.error) for r in records] == [(1, 0, "")] * 4
