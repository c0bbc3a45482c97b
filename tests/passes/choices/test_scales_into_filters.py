"""Scales go into filters where no kernel is left behind a library's call, and regions compute what they did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.convolutions_to_matmuls import ConvolutionsToMatmuls
from tf_stitch.passes.scales_into_filters import scales_to_move
from tf_stitch.targets.target import LARGE

B, F32 = Builder(), DType.F32
FUSING = replace(H200, convolution_epilogues=True)


def convolution(x: Node, name: str, filters: int, window: int = 3, stride: int = 1) -> Node:
    w = B.input(f"{name}:0", F32, (window, window, x.type.dims[-1], filters))
    at = ConvolutionAttrs((stride, stride), (1, 1), (window // 2,) * 2, 1)
    return B.convolution(OpKind.CONVOLUTION, x, B.transpose(w, (3, 0, 1, 2)), at)


def normed(x: Node, name: str) -> Node:
    """As Keras' BatchNormalization infers."""
    mean, variance, gamma, beta, bias = (B.reshape(B.input(f"{name}_{part}:0", F32, x.type.dims[-1:]),
                                                   (1, 1, 1, x.type.dims[-1])) for part in "mvgob")
    factor = B.mul(B.op(OpKind.RSQRT, B.add(B.op(OpKind.EXP, variance), B.scalar_like(1e-3, variance))), gamma)
    return B.add(B.mul(B.add(x, bias), factor), B.sub(beta, B.mul(mean, factor)))


def relu(x: Node) -> Node:
    return B.maximum(x, B.scalar_like(0.0, x))


def block(n: int, size: int, channels: int, widen: int = 4, late: bool = False) -> TensorGraph:
    """Of a ResNet.

    Args:
        late: as TensorFlow's optimizer sums: the last shift behind the addend.
    """
    x = B.input("x:0", F32, (n, size, size, widen * channels))
    y = relu(normed(convolution(x, "w1", channels, 1), "n1"))
    y = relu(normed(convolution(y, "w2", channels), "n2"))
    third = normed(convolution(y, "w3", widen * channels, 1), "n3")
    scaled, shift = third.operands
    y = relu(B.add(B.add(scaled, x), shift) if late else B.add(third, x))
    return region("g", [convolution(y, "w4", channels, 1, 2)])


def moved(*outputs: Node, device: DeviceSpec = FUSING) -> int:
    times = PatternCompiler(device, True, LARGE)
    graph = ConvolutionsToMatmuls().run(region("g", outputs)).graph
    return len(scales_to_move(graph, times.libraries, times))


@pytest.mark.parametrize("late", [False, True])
def test_a_block_has_no_kernel_but_for_filters_and_biases(late: bool) -> None:
    built = compiled(block(32, 28, 64, late=late), FUSING)
    behind = [str(call.call).split("]")[-1] for call in built.calls]
    assert [text.rpartition("nn")[2].rpartition("1x1")[2] for text in behind[:3]] == [
        " + bias relu", " + bias relu", " + bias + addend relu"]
    largest = max(n.type.numel for kernel in built.kernels for n in kernel.schedule.pattern.nodes)
    assert largest == 64 * 64 * 9, "of the filters of 3 x 3"
    plain = compiled(block(32, 28, 64), H200)
    assert sum(n.type.numel == 32 * 28 * 28 * 64 for kernel in plain.kernels
               for n in kernel.schedule.pattern.outputs) == 1, "behind the convolution of 3 x 3, not the matmul"


@pytest.mark.parametrize("device", [FUSING, H200], ids=["epilogues", "none"])
@pytest.mark.parametrize("sizes", [(2, 6, 8), (1, 5, 12)], ids=str)
@pytest.mark.parametrize("late", [False, True])
def test_regions_compute_what_they_did(sizes: tuple[int, int, int], device: DeviceSpec, late: bool) -> None:
    graph = block(*sizes, widen=2, late=late)
    values = random_values(graph)
    built = compiled(graph, device)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


def test_what_a_kernel_reads_alone_is_not_stored_for_it() -> None:
    x = B.input("x:0", F32, (32, 28, 28, 64))
    root = normed(convolution(x, "w", 64), "n")
    assert moved(convolution(relu(root), "v", 64)) == 1
    assert moved(relu(root)) == 1, "it is a result of the region"
    assert moved(B.sum(relu(root), [1, 2])) == 0
    assert moved(convolution(B.op(OpKind.TANH, root), "v", 64)) == 0, "the call has no such activation"
    assert moved(convolution(B.exp(B.add(B.add(root, x), x)), "v", 64)) == 0


def test_large_filters_of_matmuls_are_not_scaled() -> None:
    """They would be written for it; those of convolutions are turned by a kernel anyway."""
    for window, rows, filters, images, expected in ((1, 7, 2048, 1, 0), (1, 56, 256, 32, 1), (3, 7, 512, 64, 1)):
        x = B.input("x:0", F32, (images, rows, rows, 512 if rows == 7 else 64))
        assert moved(convolution(relu(normed(convolution(x, "w", filters, window), "n")), "v", 8, 1, 2)) == expected


def test_kernels_of_one_image_stay() -> None:
    """They take little time beside calls, and calls take more for what follows."""
    for window, rows, filters in ((1, 56, 256), (3, 28, 128), (3, 7, 512)):
        x = B.input("x:0", F32, (1, rows, rows, 64))
        assert moved(convolution(relu(normed(convolution(x, "w", filters, window), "n")), "v", 8, 1, 2)) == 0


def test_convolutions_alone_keep_their_scales() -> None:
    """A library that computes nothing behind them would leave the kernel where it is."""
    x = B.input("x:0", F32, (32, 28, 28, 64))
    y = relu(normed(convolution(x, "w", 64), "n"))
    precise = replace(FUSING, tf32=False)
    assert [moved(y, device=device) for device in (FUSING, H200, precise)] == [1, 0, 0]
