"""Weighted sums over windows on CPUs: against the definition in float64, in kernel IR and as compiled."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential.runner import check_all, region
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families import windows
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_attrs import ConvolutionAttrs, WindowsAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.pattern import make_pattern

B, F32 = Builder(), DType.F32


def depthwise(size: tuple[int, int], extent: tuple[int, int], stride: tuple[int, int] = (1, 1),
              dilation: tuple[int, int] = (1, 1), padding: tuple[int, int] = (0, 0), channels: int = 8, images: int = 2,
              dtype: DType = F32) -> Node | None:  # fmt: skip
    """relu6(convolution * scale + shift); None where no window lies in the image."""
    reach = [d * (r - 1) + 1 for d, r in zip(dilation, extent, strict=True)]
    if any(h + 2 * p < r for h, p, r in zip(size, padding, reach, strict=True)):
        return None
    x, w = (B.input(f"{name}:0", dtype, shape) for name, shape in
            (("x", (images, *size, channels)), ("w", (channels, *extent, 1))))
    y = B.convolution(OpKind.CONVOLUTION, x, w, ConvolutionAttrs(stride, dilation, padding, channels))
    y = B.add(B.mul(y, B.input("a:0", dtype, (channels,))), B.input("b:0", dtype, (channels,)))
    return B.minimum(B.maximum(y, B.scalar_like(0, y)), B.scalar_like(6, y))


def families(graph: TensorGraph) -> list[str]:
    compiled = compile_region(graph, *arguments_of(graph), CompileOptions(CPU))
    return [kernel.schedule.family for kernel in compiled.kernels]


@pytest.mark.parametrize(("extent", "stride", "size", "channels"), [
    (3, 1, 12, 8), (3, 2, 15, 5), (5, 1, 9, 16), (5, 2, 7, 3), (7, 1, 7, 8), (7, 1, 16, 4), (1, 1, 5, 8),
    (11, 3, 11, 2)])
def test_layers(extent: int, stride: int, size: int, channels: int) -> None:
    out = depthwise((size, size), (extent, extent), (stride, stride), padding=(extent // 2, extent // 2),
                    channels=channels)
    assert out is not None
    graph = region("g", [out])
    assert windows.NAME in families(graph)
    check_all(graph, interpret_cpu=True)


_pairs = lambda least, most: st.tuples(st.integers(least, most), st.integers(least, most))  # noqa: E731


@settings(max_examples=40)
@given(_pairs(1, 13), _pairs(1, 7), _pairs(1, 4), _pairs(1, 3), _pairs(0, 4), st.integers(1, 9), st.integers(1, 3))
def test_windows_anywhere(size: tuple[int, int], extent: tuple[int, int], stride: tuple[int, int],
                          dilation: tuple[int, int], padding: tuple[int, int], channels: int, images: int) -> None:
    """Height and width differ, and windows may lie outside of the image."""
    out = depthwise(size, extent, stride, dilation, padding, channels, images)
    if out is not None:
        check_all(region("g", [out]), interpret_cpu=True)


def test_in_float64() -> None:
    out = depthwise((9, 9), (3, 3), padding=(1, 1), dtype=DType.F64)
    assert out is not None
    assert families(region("g", [out])) == [windows.NAME]
    check_all(region("g", [out]), interpret_cpu=True)


def test_many_channels_wait_in_parts() -> None:
    """1,024 channels are two parts of an array of sums; 1,031 (a prime) are one."""
    for channels in (1024, 1031):
        out = depthwise((4, 10), (7, 7), padding=(3, 3), channels=channels, images=1)
        assert out is not None
        check_all(region("g", [out]))


def test_what_an_image_is_made_of_and_what_follows_are_in_the_kernel() -> None:
    """Zeros around what is computed are not computed: half of them would be another number."""
    x = B.input("x:0", F32, (1, 20, 20, 16))
    image = B.add(B.maximum(x, B.scalar_like(0, x)), B.scalar_like(0.5, x))
    w = B.input("w:0", F32, (16, 3, 3, 1))
    y = B.convolution(OpKind.CONVOLUTION, image, w, ConvolutionAttrs((1, 1), (1, 1), (1, 1), 16))
    graph = region("g", [B.reshape(B.add(y, B.input("r:0", F32, (1, 20, 20, 16))), (400, 16))])
    assert windows.NAME in families(graph)
    check_all(graph, interpret_cpu=True)


def test_who_pads_by_what_is_not_zero() -> None:
    x, w = B.input("x:0", F32, (1, 6, 6, 8)), B.input("w:0", F32, (3, 3, 8))
    padded = B.pad(x, B.constant(2, F32), [0, 1, 1, 0], [0, 1, 1, 0])
    seen = B.windows(padded, WindowsAttrs((6, 6), (3, 3), (1, 1), (1, 1)))
    check_all(region("g", [B.sum(B.mul(seen, w), (3, 4))]), interpret_cpu=True)


def _pattern(*outputs: Node) -> windows.Pattern:
    nodes = region("g", list(outputs)).nodes()
    inner = [n for n in nodes if n.kind is not OpKind.INPUT]
    return make_pattern(inner, users_of(nodes), frozenset(outputs), frozenset())


def _sum(axes: tuple[int, ...] = (3, 4), times: bool = True) -> tuple[Node, Node]:
    seen = B.windows(B.input("x:0", F32, (1, 6, 6, 8)), WindowsAttrs((4, 4), (3, 3), (1, 1), (1, 1)))
    product = B.mul(seen, B.input("w:0", F32, (3, 3, 8))) if times else B.exp(seen)
    return product, B.sum(product, axes)


def test_what_is_no_weighted_sum_over_windows() -> None:
    _, total = _sum()
    assert [s.domain.cols for s in windows.propose_windows(_pattern(total), CPU, True)] == [32]
    for product, other in (_sum((1, 2)), _sum(times=False)):
        with pytest.raises(ScheduleError, match="no sum over windows"):
            windows.propose_windows(_pattern(other), CPU, True)
        assert product is not other
    with pytest.raises(ScheduleError, match="no single reduction"):
        windows.propose_windows(_pattern(B.exp(B.input("x:0", F32, (4,)))), CPU, True)
    with pytest.raises(ScheduleError, match="wanted for themselves"):
        windows.propose_windows(_pattern(*_sum()), CPU, True)
    with pytest.raises(ScheduleError, match="none of the sums"):
        windows.propose_windows(_pattern(total, B.slice(total, (0,) * 4, (1,) * 4, (1, 2, 4, 8))), CPU, True)
    with pytest.raises(ScheduleError, match="column reduction"):
        windows.propose_windows(_pattern(total), H200, True)
