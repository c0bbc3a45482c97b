"""Depthwise convolutions as sums give what the library's definition gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.passes.depthwise_to_sums import DepthwiseToSums, of_few_channels

B, F32 = Builder(), DType.F32
CHANNELS = 3


def windows(size: int, extent: int, stride: int, dilation: int, padding: int) -> int:
    return (size + 2 * padding - dilation * (extent - 1) - 1) // stride + 1


def convolution(kind: OpKind, size: tuple[int, int], extent: tuple[int, int], stride: int = 1, dilation: int = 1,
                padding: int = 0, channels: int = CHANNELS) -> Node | None:  # fmt: skip
    """None where no window lies in the image."""
    counts = tuple(windows(h, r, stride, dilation, padding) for h, r in zip(size, extent, strict=True))
    if min(counts) < 1:
        return None
    image, filters, result = (2, *size, channels), (channels, *extent, 1), (2, *counts, channels)
    shapes, given_size = {OpKind.CONVOLUTION: ((image, filters), ()),
                          OpKind.CONVOLUTION_INPUT_GRAD: ((result, filters), size),
                          OpKind.CONVOLUTION_FILTER_GRAD: ((image, result), extent)}[kind]  # fmt: skip
    attrs = ConvolutionAttrs((stride, stride), (dilation, dilation), (padding, padding), channels, given_size)
    return B.convolution(kind, B.input("x:0", F32, shapes[0]), B.input("y:0", F32, shapes[1]), attrs)


def unrolled(node: Node) -> bool:
    """Whether it became sums; they give the same."""
    before = region("g", [node])
    after = same_values(before, DepthwiseToSums(lambda node: True, of_few_channels).run(before).graph)
    return not any(n.category is Category.CONVOLUTION for n in after.nodes())


KINDS = (OpKind.CONVOLUTION, OpKind.CONVOLUTION_INPUT_GRAD, OpKind.CONVOLUTION_FILTER_GRAD)


@pytest.mark.parametrize("kind", KINDS)
def test_filters_of_seven(kind: OpKind) -> None:
    node = convolution(kind, (9, 8), (7, 7), padding=3)
    assert node is not None
    assert unrolled(node)


@given(st.sampled_from(KINDS), st.tuples(*[st.integers(1, 7)] * 2), st.tuples(*[st.integers(1, 4)] * 2),
       st.integers(1, 3), st.integers(1, 2), st.integers(0, 2))  # fmt: skip
def test_windows(kind: OpKind, size: tuple[int, int], extent: tuple[int, int], stride: int, dilation: int, padding: int
                 ) -> None:
    node = convolution(kind, size, extent, stride, dilation, padding)
    if node is not None:
        whole = padding <= min(dilation * (r - 1) for r in extent)
        assert unrolled(node) or (kind is OpKind.CONVOLUTION_INPUT_GRAD and (stride > 1 or not whole))


@given(st.tuples(*[st.integers(1, 7)] * 2), st.tuples(*[st.integers(1, 4)] * 2), st.integers(1, 3), st.integers(1, 2),
       st.integers(0, 3))  # fmt: skip
def test_gradients_of_images_that_stay_the_librarys(size: tuple[int, int], extent: tuple[int, int], stride: int,
                                                    dilation: int, padding: int) -> None:
    """They are convolutions where each element has a window, and give the same."""
    node = convolution(OpKind.CONVOLUTION_INPUT_GRAD, size, extent, stride, dilation, padding)
    if node is not None:
        before = region("g", [node])
        after = same_values(before, DepthwiseToSums(lambda node: False, of_few_channels).run(before).graph)
        [kind] = [n.kind for n in after.nodes() if n.category is Category.CONVOLUTION]
        whole = stride == 1 and padding <= min(dilation * (r - 1) for r in extent)
        assert kind is (OpKind.CONVOLUTION if whole else OpKind.CONVOLUTION_INPUT_GRAD)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stays_the_librarys(kind: OpKind) -> None:
    large = convolution(kind, (13, 13), (12, 12))
    assert large is not None
    assert not unrolled(large)
