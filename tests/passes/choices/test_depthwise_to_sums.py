"""Depthwise convolutions go to a library where that is faster: large gradients of filters, and images of few
channels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.runner import region
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.libraries.gemm import GEMM
from tf_stitch.pass_manager import run_passes
from tf_stitch.passes.depthwise_to_sums import faster_as_sum
from tf_stitch.targets.cuda import CUDA_TARGET

B, BF16, F32 = Builder(), DType.BF16, DType.F32
KINDS = (OpKind.CONVOLUTION, OpKind.CONVOLUTION_INPUT_GRAD, OpKind.CONVOLUTION_FILTER_GRAD)


def convolution(kind: OpKind, batch: int, size: int, channels: int, extent: int, dtype: DType = BF16, stride: int = 1
                ) -> Node:
    pad = extent // 2
    count = (size + 2 * pad - extent) // stride + 1
    image, filters, result = (B.input(f"{name}:0", dtype, shape) for name, shape in (
        ("x", (batch, size, size, channels)), ("w", (channels, extent, extent, 1)),
        ("y", (batch, count, count, channels))))  # fmt: skip
    attrs = ConvolutionAttrs((stride, stride), (1, 1), (pad, pad), channels)
    operands, given = {OpKind.CONVOLUTION: ((image, filters), ()),
                       OpKind.CONVOLUTION_INPUT_GRAD: ((result, filters), (size, size)),
                       OpKind.CONVOLUTION_FILTER_GRAD: ((image, result), (extent, extent))}[kind]  # fmt: skip
    return B.convolution(kind, *operands, replace(attrs, size=given))


def as_sum(node: Node) -> bool:
    return faster_as_sum(node, CUDA_TARGET.libraries, H200.profile)


def test_many_terms_are_the_librarys_where_no_registers_keep_them() -> None:
    """Eight channels of halves are less than what memory moves at least, and gradients of filters have no windows that
    are next to each other."""
    assert as_sum(convolution(OpKind.CONVOLUTION, 16, 56, 96, 7))
    assert as_sum(convolution(OpKind.CONVOLUTION_INPUT_GRAD, 16, 56, 96, 7))
    assert not as_sum(convolution(OpKind.CONVOLUTION, 16, 224, 8, 7))
    assert not as_sum(convolution(OpKind.CONVOLUTION_FILTER_GRAD, 16, 56, 96, 7))


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_image_is_not(kind: OpKind) -> None:
    assert as_sum(convolution(kind, 1, 14, 96, 7))


def test_what_is_fused_counts() -> None:
    """A library's result is written, and read again by what follows."""
    assert as_sum(convolution(OpKind.CONVOLUTION, 32, 112, 16, 3, F32))
    assert not as_sum(convolution(OpKind.CONVOLUTION_FILTER_GRAD, 32, 112, 16, 3, F32))


def test_there_has_to_be_a_library_that_was_timed() -> None:
    assert faster_as_sum(convolution(OpKind.CONVOLUTION, 16, 56, 96, 7), (GEMM,), H200.profile)
    assert as_sum(convolution(OpKind.CONVOLUTION, 16, 56, 96, 7, DType.F64))


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_of_one_channel_is_a_sum(kind: OpKind) -> None:
    """The library's fast engines are for groups."""
    assert as_sum(convolution(kind, 16, 224, 1, 7))


def test_in_a_region() -> None:
    """The library gets no gradient of an image where a convolution of the gradient gives the same."""
    def left(size: int, channels: int) -> list[str]:
        graph = region("g", [convolution(kind, 16, size, channels, 7) for kind in KINDS])
        nodes = run_passes(graph, passes(H200)).nodes()
        return sorted(n.kind.value for n in nodes if n.category is Category.CONVOLUTION)

    assert left(56, 96) == ["convolution_filter_grad"]
    assert left(224, 8) == ["convolution", "convolution", "convolution_filter_grad"]
