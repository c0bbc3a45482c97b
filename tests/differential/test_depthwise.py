"""Depthwise convolutions and their gradients, with what is around them, in every form of a kernel."""

from __future__ import annotations

import pytest

from tests.differential.runner import check_all, region
from tests.passes.test_depthwise_to_sums import windows
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs, WindowsAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.depthwise_to_sums import DepthwiseToSums, of_few_channels

B, F32 = Builder(), DType.F32


def layer(dtype: DType = F32, size: int = 6, extent: int = 3, stride: int = 1, channels: int = 8) -> list[Node]:
    """relu(convolution + bias), and gradients where windows are at every element."""
    pad = extent // 2
    count = windows(size, extent, stride, 1, pad)
    attrs = ConvolutionAttrs((stride, stride), (1, 1), (pad, pad), channels)
    x, w = B.input("x:0", dtype, (2, size, size, channels)), B.input("w:0", dtype, (channels, extent, extent, 1))
    out = B.add(B.convolution(OpKind.CONVOLUTION, x, w, attrs), B.input("b:0", dtype, (channels,)))
    wanted = B.mul(B.input("g:0", dtype, (2, count, count, channels)), B.scalar_like(0.5, out))
    results = [B.maximum(out, B.scalar_like(0, out)), B.convolution(
        OpKind.CONVOLUTION_FILTER_GRAD, x, wanted,
        ConvolutionAttrs((stride, stride), (1, 1), (pad, pad), channels, (extent, extent)))]
    if stride == 1:
        results.append(B.convolution(OpKind.CONVOLUTION_INPUT_GRAD, wanted, w, ConvolutionAttrs(
            (1, 1), (1, 1), (pad, pad), channels, (size, size))))
    return results


def summed(nodes: list[Node]) -> TensorGraph:
    return DepthwiseToSums(lambda node: True, of_few_channels).run(region("g", nodes)).graph


@pytest.mark.parametrize(("extent", "stride", "channels"), [(3, 1, 8), (5, 2, 3), (7, 1, 8)])
def test_a_layer_and_its_gradients(extent: int, stride: int, channels: int) -> None:
    check_all(summed(layer(extent=extent, stride=stride, channels=channels)), interpret_cpu=True, interpret_gpu=True)


def test_in_half_precision() -> None:
    check_all(summed(layer(DType.BF16)), interpret_gpu=True)


def test_windows_at_distances_of_their_own() -> None:
    """Along height and width, from one to the next and within each."""
    x = B.input("x:0", F32, (2, 9, 11, 4))
    seen = B.windows(x, WindowsAttrs((3, 2), (2, 3), (2, 3), (3, 1)))
    check_all(region("g", [seen, B.sum(B.exp(seen), (3, 4))]), interpret_cpu=True, interpret_gpu=True)
