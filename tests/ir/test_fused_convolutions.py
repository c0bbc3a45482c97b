"""What one call of a library of convolutions may compute."""

from __future__ import annotations

import pytest

from tests.ir.test_activations import gelu, relu
from tf_stitch.ir.activations import Activation
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_convolutions import FusedConvolution, as_fused_convolution, fused_convolutions
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind

B, F32 = Builder(), DType.F32
SHAPE = (2, 5, 4, 6)


def convolution(dtype: DType = F32, groups: int = 1) -> Node:
    """With a result of SHAPE."""
    x, w = B.input("x", dtype, (2, 7, 6, 4)), B.input("w", dtype, (6, 3, 3, 4 // groups))
    return B.convolution(OpKind.CONVOLUTION, x, w, ConvolutionAttrs((1, 1), (1, 1), (0, 0), groups))


def bias(shape: tuple[int, ...] = (6,), dtype: DType = F32) -> Node:
    return B.input("b", dtype, shape)


def addend(dtype: DType = F32) -> Node:
    return B.input("r", dtype, SHAPE)


def calls(root: Node, *outputs: Node) -> list[FusedConvolution]:
    graph = TensorGraph("f", [(f"o{i}", n) for i, n in enumerate(outputs)])
    found = list(fused_convolutions(root, users_of(graph.nodes()), frozenset(outputs)))
    for call in found:
        assert as_fused_convolution(call.nodes) == call
    return found


@pytest.mark.parametrize("dtype", [F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("first", ["bias", "addend"])
def test_a_bias_an_addend_and_a_rectifier(dtype: DType, first: str) -> None:
    root, b, r = convolution(dtype), bias(dtype=dtype), addend(dtype)
    y = relu(B.add(r, B.add(root, b)) if first == "bias" else B.add(b, B.add(root, r)))
    last = calls(root, y)[-1]
    assert (last.convolution, last.result, last.added) == (root, y, (b, r))
    assert (last.bias, last.addend, last.activation) == (b, r, Activation.RELU)


def test_a_bias_and_a_rectifier() -> None:
    root, b = convolution(), bias((1, 1, 1, 6))
    biased, y = calls(root, relu(B.add(root, b)))
    assert (biased.bias, biased.activation) == (b, Activation.NONE)
    assert (y.bias, y.addend, y.activation) == (b, None, Activation.RELU)


def test_an_addend_needs_a_bias_and_a_rectifier() -> None:
    root = convolution()
    assert not calls(root, relu(root))
    assert not calls(root, relu(B.add(root, addend())))
    assert [call.addend for call in calls(root, B.exp(B.add(B.add(root, bias()), addend())))] == [None]
    assert not calls(root, B.exp(B.add(B.add(root, addend()), bias())))


def test_reshapes_between_are_views() -> None:
    root = convolution()
    y = relu(B.add(B.reshape(root, (40, 6)), bias()))
    assert calls(root, y)[-1].result is y
    assert not calls(root, relu(B.add(B.reshape(root, (40, 2, 3)), B.input("b", F32, (2, 3)))))


def test_what_the_library_does_not_compute() -> None:
    root = convolution()
    assert not calls(root, B.add(root, B.constant([1.0] * 6, F32)))  # constants lie in no memory
    assert not calls(root, B.add(root, B.input("b", F32, (4, 1))))  # a bias of rows
    assert not calls(root, B.add(root, root))
    assert not calls(root, B.mul(root, bias()))
    assert not calls(root, B.sub(root, bias()))
    assert not calls(root, B.add(root, bias()), B.exp(root))  # it is needed by itself
    assert not calls(root, root, B.add(root, bias()))
    assert len(calls(root, gelu(B.add(root, bias())))) == 1
    assert len(calls(root, B.add(relu(B.add(root, bias())), addend()))) == 2


def test_which_convolutions() -> None:
    grouped = convolution(groups=2)
    assert not calls(grouped, B.add(grouped, bias()))
    x, w = B.input("x", F32, (2, 7, 7, 6, 4)), B.input("w", F32, (6, 3, 3, 3, 4))
    volume = B.convolution(OpKind.CONVOLUTION, x, w, ConvolutionAttrs((1,) * 3, (1,) * 3, (0,) * 3, 1))
    assert not calls(volume, B.add(volume, bias()))
    grad = B.convolution(OpKind.CONVOLUTION_INPUT_GRAD, B.input("y", F32, SHAPE), B.input("w", F32, (6, 3, 3, 4)),
                         ConvolutionAttrs((1, 1), (1, 1), (0, 0), 1, (7, 6)))
    assert not calls(grad, B.add(grad, B.input("b", F32, (4,))))


def test_other_nodes_are_no_call() -> None:
    root = convolution()
    assert as_fused_convolution([root]) == FusedConvolution((root,))
    assert as_fused_convolution([root, B.exp(root)]) is None
    other = B.add(root, bias())
    assert as_fused_convolution([root, other, B.add(other, addend())]) is None
