"""How large elements of data sets are at most, beside the elements themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from tensorflow.python.data.ops.iterator_ops import OwnedIterator

from tf_stitch.plugin.element_shapes import largest_elements, remember_data_sets


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnedIterator, "_create_iterator", OwnedIterator._create_iterator)
    remember_data_sets()


def rows(count: int = 10) -> Any:
    return tf.data.Dataset.from_tensor_slices(np.ones([count, 6], np.float32))


def keras(shuffle: bool | str) -> Callable[[], Any]:
    arrays = np.ones([10, 6], np.float32), np.ones([10, 1], np.float32)
    return lambda: ArrayDataAdapter(*arrays, batch_size=4, shuffle=shuffle).get_tf_dataset()


def largest(dataset: Any) -> Any:
    iterator = iter(dataset)
    return largest_elements(iterator._iterator_resource)


@pytest.mark.parametrize("make", [
    lambda: rows().shuffle(8).batch(4).prefetch(2).repeat(2),
    lambda: rows().batch(4, num_parallel_calls=2),
    lambda: rows().batch(4).map(lambda x: (tf.reshape(x, [-1, 2, 3]), x[:, 0])),
    lambda: tf.data.Dataset.zip((rows().batch(4), rows(5).batch(2))),
    lambda: rows(9).batch(2).concatenate(rows().batch(4)),
    keras(False), keras(True), keras("batch"),
])
def test_the_largest_element_is_known(make: Callable[[], Any]) -> None:
    dataset = make()
    elements = [[tuple(tensor.shape) for tensor in tf.nest.flatten(element)] for element in dataset.take(20)]
    assert largest(dataset) == [tuple(map(max, *shapes)) for shapes in zip(*elements, strict=True)]


@pytest.mark.parametrize("make", [
    lambda: tf.data.Dataset.from_generator(lambda: iter([np.ones(3)]), output_signature=tf.TensorSpec([None])),
    lambda: rows().batch(4).map(lambda x: tf.boolean_mask(x, x[:, 0] > 0)),
    lambda: rows().batch(4).flat_map(lambda x: tf.data.Dataset.from_tensors(x).filter(lambda x: True)),
    lambda: rows().padded_batch(4),
])
def test_what_only_the_elements_say_is_unknown(make: Callable[[], Any]) -> None:
    assert largest(make()) is None


def test_what_is_no_iterator_has_no_elements() -> None:
    assert largest_elements(tf.constant(1.0)) is None


def test_iterators_that_functions_make_still_work() -> None:
    @tf.function
    def total() -> tf.Tensor:
        return tf.reduce_sum(next(iter(rows().batch(4))))

    assert total() == 24
