"""Segment reductions and scatters: what every_op cannot say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check
from tests.frontend.test_random import reasons
from tf_stitch.frontend.tensorflow.legalize import scatters

RAW = tf.raw_ops
DATA, IDS = tf.TensorSpec([6, 4]), tf.TensorSpec([6], tf.int32)


def segments(op: str) -> Any:
    return lambda data, ids: getattr(RAW, op)(data=data, segment_ids=ids, num_segments=5)


@pytest.mark.parametrize(("op", "refused"), [("UnsortedSegmentSum", True), ("UnsortedSegmentMax", False)])
@pytest.mark.parametrize("dtype", [tf.float32, tf.int32])
def test_deterministic_tensorflow_on_a_gpu(op: str, refused: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers and maxima are the same in any order."""
    monkeypatch.setattr(scatters, "is_op_determinism_enabled", lambda: True)
    specs = tf.TensorSpec([6, 4], dtype), IDS
    why = reasons(segments(op), *specs, device="/device:GPU:0")[op]
    assert (why == f"{op} adds in any order, and TensorFlow has to be deterministic") is (
        refused and dtype is tf.float32)
    assert reasons(segments(op), *specs, device="/device:CPU:0")[op] is None


def test_a_batch_of_any_size() -> None:
    ids = np.array([[2, 0, -1], [4, 4, 2]], np.int32)
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    check(segments("UnsortedSegmentSum"), data, ids, specs=[tf.TensorSpec([None, 3, 4]),
                                                            tf.TensorSpec([None, 3], tf.int32)])


def test_a_gather_and_its_gradient() -> None:
    def step(table: tf.Tensor, ids: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(table)
            y = tf.reduce_sum(tf.sin(tf.gather(table, ids)))
        return tf.convert_to_tensor(tape.gradient(y, table))

    check(step, np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4), np.array([4, 0, 4, 4, 1], np.int32))
