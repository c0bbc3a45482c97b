"""What lies between convolutions has channels last, and means the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes.channels_last import ChannelsLast

B = Builder()
FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
ATTRS = ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1)


def convolution(x: Node, name: str = "w", channels: int = 3) -> Node:
    """Of images [n, c, h, w]."""
    filters = B.input(f"{name}:0", DType.F64, (channels, 3, 3, x.type.dims[1]))
    return B.transpose(B.convolution(K.CONVOLUTION, B.transpose(x, LAST), filters, ATTRS), FIRST)


def images(name: str = "x", channels: int = 3) -> Node:
    return B.input(f"{name}:0", DType.F64, (2, channels, 4, 5))


def transposes(graph: TensorGraph) -> int:
    return sum(n.kind is K.TRANSPOSE for n in graph.nodes())


def check(*outputs: Node) -> TensorGraph:
    """The changed graph."""
    graph = region("g", list(outputs))
    result = ChannelsLast().run(graph)
    verify_graph(result.graph, static=True)
    values = random_values(graph)
    got, want = interpret(result.graph, values), interpret(graph, values)
    for key in want:
        np.testing.assert_allclose(got[key], want[key], rtol=1e-10, atol=1e-10)
    return result.graph


def batch_norm(y: Node) -> Node:
    scale = B.reshape(B.input("scale:0", DType.F64, (3,)), (1, 3, 1, 1))
    centered = B.sub(y, B.reshape(B.mean(y, (0, 2, 3)), (1, 3, 1, 1)))
    variance = B.reshape(B.mean(B.square(centered), (0, 2, 3)), (1, 3, 1, 1))
    return B.mul(B.mul(centered, B.op(K.RSQRT, B.add(variance, B.constant(1e-3, DType.F64)))), scale)


def test_a_residual_block_has_transposes_at_its_ends_alone() -> None:
    x = images()
    y = B.maximum(batch_norm(convolution(x)), B.constant(0, DType.F64))
    out = B.add(convolution(y, "v"), y)
    assert transposes(region("g", [out])) == 4
    changed = check(out)
    assert transposes(changed) == 2
    sums = [n.attrs.axes for n in changed.nodes() if n.kind is K.SUM]  # type: ignore[attr-defined]
    assert sums == [(0, 1, 2)] * 2


def test_means_of_images_need_no_transpose() -> None:
    y = convolution(images())
    mean = B.mean(y, (2, 3), keepdims=True)
    assert transposes(check(B.reshape(mean, (2, 3)))) == 1
    assert transposes(check(B.mul(y, mean))) == 2


def test_a_sum_that_keeps_two_axes_in_another_order() -> None:
    changed = check(B.sum(convolution(images()), (0, 3)))
    assert transposes(changed) == 2


@pytest.mark.parametrize("moved", [
    lambda y: B.pad(y, B.constant(1, DType.F64), (0, 0, 1, 2), (1, 0, 3, 0)),
    lambda y: B.slice(y, (0, 1, 0, 2), (1, 1, 2, 1), (2, 2, 2, 3)),
    lambda y: B.concat([y, images("z")], 1),
    lambda y: B.concat([y, y], 3),
    lambda y: B.cast(y, DType.F32),
    lambda y: B.op(K.SELECT, B.op(K.GREATER, y, B.constant(0, DType.F64)), y, images("z")),
    lambda y: B.mul(y, B.broadcast(B.reshape(B.input("s:0", DType.F64, (2, 3)), (2, 3, 1, 1)), (2, 3, 4, 5))),
    lambda y: B.mul(y, B.broadcast(B.input("s:0", DType.F64, (5,)), (3, 4, 5))),
    lambda y: B.mul(y, B.input("s:0", DType.F64, (3, 1, 1))),
    lambda y: B.mul(y, B.constant(np.arange(60).reshape(3, 4, 5), DType.F64)),
    lambda y: B.mul(y, B.iota((2, 3, 4, 5), -1, DType.F64)),
    lambda y: B.mul(y, B.constant([[[[2.0]]]], DType.F64))])
def test_it_goes_on_behind(moved: Callable[[Node], Node]) -> None:
    y = moved(convolution(images()))
    changed = check(B.exp(B.cast(y, DType.F64)))
    [last] = [node for _, node in changed.outputs]
    assert last.kind is K.TRANSPOSE
    assert last.operands[0].kind is K.EXP


@pytest.mark.parametrize("ends", [
    lambda y: B.reshape(y, (2, 60)), lambda y: B.transpose(y, (1, 0, 2, 3)), lambda y: B.reduce(K.MAX, y, (0, 1, 2, 3)),
    lambda y: B.arg_reduce(K.ARGMAX, y, 1, DType.I32), lambda y: B.cumsum(y, False, False),
    lambda y: B.broadcast(y, (3, *y.type.dims))])
def test_what_else_there_is_stays(ends: Callable[[Node], Node]) -> None:
    y = convolution(images())
    check(ends(y), B.exp(y))


def test_single_elements_are_views() -> None:
    x = B.input("x:0", DType.F64, (2, 3, 1, 1))
    assert transposes(check(B.reshape(B.exp(convolution(x)), (2, 3)))) == 1


def volumes(x: Node, name: str = "w") -> Node:
    """A convolution of images [n, c, d, h, w]."""
    filters = B.input(f"{name}:0", DType.F64, (3, 2, 1, 3, x.type.dims[1]))
    attrs = ConvolutionAttrs((1, 1, 1), (1, 1, 1), (1, 0, 1), 1)
    return B.transpose(B.convolution(K.CONVOLUTION, B.transpose(x, (0, 2, 3, 4, 1)), filters, attrs), (0, 4, 1, 2, 3))


def test_of_three_axes() -> None:
    """Statistics, a bias, a slice, a pad, a concat and a broadcast, beside images of two axes, which are broadcast."""
    y = volumes(B.input("x:0", DType.F64, (2, 3, 4, 4, 5)))
    scale = B.reshape(B.input("scale:0", DType.F64, (3,)), (1, 3, 1, 1, 1))
    y = B.mul(B.sub(y, B.mean(y, (0, 2, 3, 4), keepdims=True)), scale)
    y = B.concat([B.slice(y, (0, 1, 0, 2, 0), (1, 1, 2, 1, 1), (2, 2, 3, 2, 5)), B.broadcast(
        B.reshape(B.sum(y, (2, 3, 4)), (2, 3, 1, 1, 1)), (2, 3, 3, 2, 5))], 1)
    y = B.pad(y, B.constant(1, DType.F64), (0, 0, 1, 1, 0), (0, 0, 0, 1, 0))
    changed = check(volumes(y, "v"))
    assert transposes(changed) == 2
    flat = B.transpose(B.input("z:0", DType.F64, (3, 4, 6, 6)), FIRST)
    y = B.add(volumes(B.input("x:0", DType.F64, (2, 3, 5, 4, 6))), B.exp(flat))
    check(B.exp(y), B.exp(convolution(flat, "v")))


def test_turns_of_other_ranks_than_convolutions_stay() -> None:
    turned = B.transpose(B.input("v:0", DType.F64, (2, 2, 4, 5, 3)), (0, 4, 1, 2, 3))
    changed = check(B.exp(turned), convolution(images()))
    [exp] = [n for n in changed.nodes() if n.kind is K.EXP]
    assert exp.operands[0].kind is K.TRANSPOSE


def test_statistics_of_channels_stay_vectors() -> None:
    """Of four axes as TensorFlow has them, and of a single image of a single element."""
    y = convolution(images())
    mean = B.mean(y, (0, 2, 3), keepdims=True)
    changed = check(B.mul(B.sub(y, mean), B.add(B.square(mean), mean)), B.mul(mean, B.constant(2, DType.F64)))
    assert transposes(changed) == 2
    for batch in (1, 2):
        y = convolution(B.input("x:0", DType.F64, (batch, 3, 1, 1)))
        check(B.add(B.mul(y, B.input("s:0", DType.F64, (1, 3, 1, 1))), y), B.exp(y))


def test_graphs_without_convolutions_stay() -> None:
    graph = region("g", [B.exp(B.transpose(images(), FIRST))])
    assert not ChannelsLast().run(graph).modified
    x = B.input("x:0", DType.F64, (2, 4, 5, 3))
    filters = B.input("w:0", DType.F64, (3, 3, 3, 3))
    assert not ChannelsLast().run(region("g", [B.convolution(K.CONVOLUTION, x, filters, ATTRS)])).modified
