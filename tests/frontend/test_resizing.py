"""Images of another size, against TensorFlow's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace
from tests.frontend.values import normal
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind

SIZES = [(6, 10), (2, 3), (9, 4), (3, 5), (1, 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("method", ["nearest", "bilinear"])
@pytest.mark.parametrize("batch", [2, None])
def test_images_and_gradients(size: tuple[int, int], method: str, batch: int | None) -> None:
    def both(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.image.resize(x, size, method)
            loss = tf.reduce_sum(y * y)
        return y, tape.gradient(loss, x)

    check(both, normal((2, 3, 5, 2)), specs=[tf.TensorSpec((batch, 3, 5, 2), tf.float32)], rtol=1e-5)


@pytest.mark.parametrize("flags", [{}, {"half_pixel_centers": True}, {"align_corners": True}], ids=str)
@pytest.mark.parametrize(("image", "size"), [
    ((1, 1), (64, 48)), ((1, 1), (1, 40)), ((1, 3), (64, 12)), ((1, 3), (40, 3)), ((1, 3), (1, 7)), ((3, 1), (7, 40)),
    ((3, 1), (3, 40)), ((3, 1), (2, 1))], ids=str)
def test_one_pixel_along_an_axis(image: tuple[int, int], size: tuple[int, int], flags: dict[str, bool]) -> None:
    """However many were made of it."""
    raw, x, dy = tf.raw_ops, normal((2, *image, 3)), normal((2, *size, 3), seed=1)

    def all_four(x: Any, dy: Any) -> Any:
        return (raw.ResizeBilinear(images=x, size=size, **flags),
                raw.ResizeNearestNeighbor(images=x, size=size, **flags),
                raw.ResizeBilinearGrad(grads=dy, original_image=x, **flags),
                raw.ResizeNearestNeighborGrad(grads=dy, size=image, **flags))

    check(all_four, x, dy, rtol=1e-4)


def test_one_pixel_needs_no_table() -> None:
    traced = trace(lambda x: tf.image.resize(x, (5000, 5000)), tf.TensorSpec((1, 1, 1, 1)))
    assert not traced.opaque()


@pytest.mark.parametrize("size", [(6, 10), (3, 5)])
def test_an_infinite_pixel(size: tuple[int, int]) -> None:
    """Between it and others there is no number; where the size stays, it is itself."""
    x = normal((1, 3, 5, 1))
    x[0, 1, 2, 0] = np.inf
    check(lambda x: tf.image.resize(x, size), x, rtol=1e-5)
    check(lambda x: tf.image.resize(x[:, 1:2, 2:3], size), x, rtol=1e-5)


def test_what_stays() -> None:
    traced = trace(lambda x, n: tf.image.resize(x, n), tf.TensorSpec((1, 4, 4, 1)), tf.TensorSpec((2,), tf.int32))
    assert any("the size of the image is decided at run time" in reason for reason in traced.opaque().values())

    def gradient(dy: Any) -> Any:
        return tf.raw_ops.ResizeBilinearGrad(grads=dy, original_image=tf.zeros((1, 2, 2, 1)), half_pixel_centers=True)

    [reason] = trace(gradient, tf.TensorSpec((1, 80, 2, 1))).opaque().values()
    assert "along an axis" in reason


def test_tables_are_of_an_axis_each() -> None:
    """A kernel holds them: of all pixels they would be megabytes of its source."""
    traced = trace(lambda x: tf.image.resize(x, (512, 512)), tf.TensorSpec((1, 64, 64, 1)))
    graph = TensorGraph("y", [("y", node) for node in [traced.imported.value(traced.concrete.graph.outputs[0].name)]
                              if node is not None])
    assert max(n.type.numel for n in graph.nodes() if n.kind is OpKind.CONSTANT) == 512
    [reason] = trace(lambda x: tf.image.resize(x, (8, 5000)), tf.TensorSpec((1, 4, 4, 1))).opaque().values()
    assert reason == "a table of 5000 numbers"
