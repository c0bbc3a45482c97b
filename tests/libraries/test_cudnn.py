"""Convolutions by a library: the call of a node, its words, its place in a plan, and what it computes by NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.activations import Activation
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolutions import ConvolutionSizes
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, users_of
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.libraries.cudnn import CUDNN, WITH_EPILOGUES, Convolution, ConvolutionPass
from tf_stitch.libraries.registry import LIBRARIES, code_of, library_of
from tf_stitch.planning.free_nodes import free_nodes
from tf_stitch.planning.pattern import make_pattern

B = Builder()
ATTRS = ConvolutionAttrs((2, 1), (1, 1), (1, 0), 2)
SIZES = ConvolutionSizes(n=2, c=4, k=6, image=(9, 8), window=(3, 2), windows=(5, 7))
KINDS = {ConvolutionPass.FORWARD: K.CONVOLUTION, ConvolutionPass.INPUT_GRADIENT: K.CONVOLUTION_INPUT_GRAD,
         ConvolutionPass.FILTER_GRADIENT: K.CONVOLUTION_FILTER_GRAD}
IMAGES, FILTERS, RESULTS = (2, 9, 8, 4), (6, 3, 2, 2), (2, 5, 7, 6)


def node_of(which: ConvolutionPass, dtype: DType = DType.F32) -> Node:
    x, w, y = (B.input(f"{name}:0", dtype, shape) for name, shape in
               (("x", IMAGES), ("w", FILTERS), ("y", RESULTS)))
    operands, size = {ConvolutionPass.FORWARD: ((x, w), ()), ConvolutionPass.INPUT_GRADIENT: ((y, w), IMAGES[1:3]),
                      ConvolutionPass.FILTER_GRADIENT: ((x, y), FILTERS[1:3])}[which]
    return B.convolution(KINDS[which], *operands, replace(ATTRS, size=size))


@pytest.mark.parametrize("which", ConvolutionPass)
def test_it_takes_convolutions_alone(which: ConvolutionPass) -> None:
    node = node_of(which)
    assert library_of(node, LIBRARIES) is CUDNN
    assert library_of(B.exp(node), LIBRARIES) is None
    assert CUDNN.match([node, B.exp(node)]) is None


@pytest.mark.parametrize("which", ConvolutionPass)
def test_words(which: ConvolutionPass) -> None:
    node = node_of(which, DType.F16)
    fused = CUDNN.match([node])
    assert fused is not None
    bound = CUDNN.bind(fused, ())
    assert [argument for argument, _ in bound.arguments] == [*node.operands, node]
    call = bound.call
    assert call == Convolution(which, DType.F16, SIZES, node.attrs)  # type: ignore[arg-type]
    assert LIBRARIES[code_of(call)] is CUDNN
    assert call.record.words(**call.members()) == [
        int(which), 19, 2, 4, 6, 2, *(2, 9, 8), *(2, 3, 2), *(2, 5, 7), *(2, 2, 1), *(2, 1, 1), *(2, 1, 0), 0, 0, 0]
    assert call.operand_bytes() == [2 * t.numel for t in (*(o.type for o in node.operands), node.type)]
    assert call.domain == (node.type.numel // node.type.dims[-1], node.type.dims[-1])
    assert call.at_hand() == call


@pytest.mark.parametrize("which", ConvolutionPass)
def test_reference(which: ConvolutionPass) -> None:
    node = node_of(which)
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(o.type.dims).astype(np.float32) for o in node.operands]
    out = np.empty(node.type.dims, np.float32)
    call = Convolution(which, DType.F32, SIZES, node.attrs)  # type: ignore[arg-type]
    call.reference([x.reshape(-1).view(np.uint8) for x in (*operands, out)])
    np.testing.assert_allclose(out, node.info.reference(node.attrs, *operands), rtol=1e-5, atol=1e-5)


VOLUMES = ConvolutionAttrs((1, 2, 1), (2, 1, 1), (0, 1, 2), 1)


def volumes() -> tuple[Node, Node, Node]:
    """A convolution of images of three axes, and its gradients."""
    x, w, y = (B.input(f"{name}:0", DType.F32, shape) for name, shape in
               (("x", (2, 5, 4, 3, 4)), ("w", (6, 2, 3, 3, 4)), ("y", (2, 3, 2, 5, 6))))
    return (B.convolution(K.CONVOLUTION, x, w, VOLUMES),
            B.convolution(K.CONVOLUTION_INPUT_GRAD, y, w, replace(VOLUMES, size=(5, 4, 3))),
            B.convolution(K.CONVOLUTION_FILTER_GRAD, x, y, replace(VOLUMES, size=(2, 3, 3))))


def test_of_three_axes() -> None:
    graph = region("g", [B.exp(node) for node in volumes()])
    built = compiled(graph, H200)
    sizes = "float32 [2,5,4,3,4]x[6,2,3,3] strides 1x2x1 dilations 2x1x1 padding 0x1x2"
    assert {str(call.call) for call in built.calls} == {
        f"convolution {which} {sizes}" for which in ("forward", "input_gradient", "filter_gradient")}
    [words] = [call.call.record.words(**call.call.members()) for call in built.calls if "forward" in str(call.call)]
    assert words == [0, 1, 2, 4, 6, 1, *(3, 5, 4, 3), *(3, 2, 3, 3), *(3, 3, 2, 5), *(3, 1, 2, 1), *(3, 2, 1, 1),
                     *(3, 0, 1, 2), 0, 0, 0]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


def test_an_axis_that_windows_leave_as_it_is_is_none() -> None:
    x, w = B.input("x:0", DType.F32, (2, 5, 4, 3, 4)), B.input("w:0", DType.F32, (1, 3, 3, 4, 6))
    y = B.convolution(K.CONVOLUTION, B.exp(x), B.transpose(w, (4, 0, 1, 2, 3)),
                      ConvolutionAttrs((1, 1, 1), (1, 1, 1), (0, 1, 1), 1))
    graph = region("g", [B.exp(y)])
    built = compiled(graph, H200)
    assert [str(call.call) for call in built.calls] == ["convolution forward float32 [10,4,3,4]x[6,3,3] padding 1x1"]
    assert len(built.kernels) == 3
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


FUSING = replace(H200, convolution_epilogues=True)


def followed(dtype: DType = DType.F32, shape: tuple[int, ...] = (6,)) -> tuple[Node, Node, Node]:
    """A convolution with a bias, an addend and a rectifier behind it, and these two operands."""
    x, w = B.input("x:0", dtype, IMAGES), B.input("w:0", dtype, (6, 3, 2, 4))
    root = B.convolution(K.CONVOLUTION, x, w, replace(ATTRS, groups=1))
    bias, addend = B.input("b:0", dtype, shape), B.input("r:0", dtype, RESULTS)
    total = B.add(addend, B.add(root, bias))
    return B.maximum(total, B.scalar_like(0.0, total)), bias, addend


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_words_with_what_follows(dtype: DType) -> None:
    y, bias, addend = followed(dtype, (1, 1, 1, 6))
    nodes = [n for n in region("g", [y]).nodes() if n.operands and n.type.dims == RESULTS]
    assert CUDNN.match(nodes) is None
    library = CUDNN.on(FUSING)
    assert CUDNN.on(H200) is CUDNN
    fused = library.match(nodes)
    assert fused is not None
    bound = library.bind(fused, ())
    assert [argument for argument, _ in bound.arguments] == [*nodes[0].operands, bias, addend, y]
    assert LIBRARIES[code_of(bound.call)] is CUDNN
    assert bound.call.record.words(**bound.call.members())[-3:] == [1, 1, int(Activation.RELU)]
    assert bound.call.operand_bytes() == [dtype.size * t.numel for t in (
        *(o.type for o in nodes[0].operands), bias.type, addend.type, y.type)]
    assert str(bound.call).endswith("padding 1x0 + addend + bias relu")
    assert bound.call.needs == "convolution_epilogues"
    assert Convolution(ConvolutionPass.FORWARD, dtype, SIZES, ATTRS).needs == ""


def test_what_follows_needs_tensor_cores() -> None:
    """Others of cuDNN's kernels for it were not timed, or take 60 times as long."""
    precise = CUDNN.on(replace(FUSING, tf32=False))
    for dtype, fuses in ((DType.F32, False), (DType.BF16, True)):
        nodes = [n for n in region("g", [followed(dtype)[0]]).nodes() if n.operands and n.type.dims == RESULTS]
        assert (precise.match(nodes) is not None) is fuses
        assert (next(precise.extensions(nodes[0], users_of(nodes), frozenset()), None) is not None) is fuses
    wide = [n for n in region("g", [followed(DType.F64)[0]]).nodes() if n.operands and n.type.dims == RESULTS]
    assert CUDNN.on(FUSING).match(wide) is None
    assert CUDNN.on(FUSING).match(wide[:1]) is not None


def test_reference_with_what_follows() -> None:
    rng = np.random.default_rng(0)
    shapes = (IMAGES, (6, 3, 2, 4), (6,), RESULTS)
    image, filters, bias, addend = operands = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    out = np.empty(RESULTS, np.float32)
    call = Convolution(ConvolutionPass.FORWARD, DType.F32, SIZES, replace(ATTRS, groups=1), True, True, Activation.RELU)
    call.reference([x.reshape(-1).view(np.uint8) for x in (*operands, out)])
    bare = np.empty(RESULTS, np.float32)
    replace(call, bias=False, addend=False, activation=Activation.NONE).reference(
        [x.reshape(-1).view(np.uint8) for x in (image, filters, bare)])
    np.testing.assert_allclose(out, np.maximum(bare + addend + bias, 0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_a_call_takes_over_what_follows(dtype: DType) -> None:
    graph = region("g", [followed(dtype)[0]])
    built = compiled(graph, FUSING)
    assert not built.kernels
    assert [str(call.call).endswith("+ addend + bias relu") for call in built.calls] == [True]
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")
    assert len(compiled(graph, H200).kernels) == 1


def test_what_follows_costs_what_it_reads_and_a_little() -> None:
    graph = region("g", [followed()[0]])
    compiler, nodes = PatternCompiler(FUSING, True), [n for n in graph.nodes() if n.type.dims == RESULTS and n.operands]
    users, wanted = users_of(graph.nodes()), frozenset((nodes[-1],))
    alone, all_of_it = (compiler.exact(make_pattern(some, users, wanted, free_nodes(nodes))) for some in
                        (nodes[:1], nodes))
    assert alone is not None
    assert all_of_it is not None
    assert WITH_EPILOGUES.epilogue_us < all_of_it - alone < WITH_EPILOGUES.epilogue_us + 0.5


def test_a_tensor_beyond_32_bits_is_too_large() -> None:
    call = Convolution(ConvolutionPass.FORWARD, DType.F32, SIZES, ATTRS)
    assert call.too_large() == ""
    assert "more elements than" in replace(call, sizes=replace(SIZES, n=1 << 30)).too_large()


def test_a_region_of_convolutions_between_kernels() -> None:
    """What comes before and after is in kernels; reshapes beside a call are none."""
    x, w = B.input("x:0", DType.F32, (2, 72, 4)), B.input("w:0", DType.F32, (3, 2, 2, 6))
    filters = B.transpose(w, (3, 0, 1, 2))
    y = B.convolution(K.CONVOLUTION, B.reshape(B.exp(x), IMAGES), filters, ATTRS)
    graph = region("g", [B.exp(B.reshape(y, (10, 42))), B.reshape(y, (420,))])
    built = compiled(graph, H200)
    assert [str(call.call) for call in built.calls] == [
        "convolution forward float32 [2,9,8,4]x[6,3,2] groups 2 strides 2x1 padding 1x0"]
    assert len(built.kernels) == 3
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, built, values), *reference(graph, values), "GPU")


@pytest.mark.parametrize("scaled", [False, True])
def test_a_filter_of_one_element_is_stored(scaled: bool) -> None:
    """Kernels would compute its transpose by the way; the library reads memory."""
    x, w = B.input("x:0", DType.F32, (2, 5, 5, 1)), B.input("w:0", DType.F32, (1, 1, 1, 1))
    filters = B.transpose(B.mul(w, B.constant(2.0, DType.F32)) if scaled else w, (3, 0, 1, 2))
    attrs = replace(ATTRS, strides=(2, 2), padding=(0, 0), groups=1)
    graph = region("g", [B.convolution(K.CONVOLUTION, x, filters, attrs)])
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, compiled(graph, H200), values), *reference(graph, values), "GPU")


def test_a_cpu_has_none() -> None:
    with pytest.raises(ScheduleError, match="no kernel family and no library takes convolution"):
        compiled(region("g", [node_of(ConvolutionPass.FORWARD)]), CPU)


def depthwise(kind: K, dtype: DType, stride: int = 1) -> Node:
    """At 16 images of 56 x 56 x 96 by filters of 7 x 7."""
    image, filters, result = (B.input(f"{name}:0", dtype, shape) for name, shape in (
        ("x", (16, 56, 56, 96)), ("w", (96, 7, 7, 1)), ("y", (16, 56 // stride, 56 // stride, 96))))
    attrs = ConvolutionAttrs((stride, stride), (1, 1), (3, 3), 96)
    operands, size = {K.CONVOLUTION: ((image, filters), ()), K.CONVOLUTION_INPUT_GRAD: ((result, filters), (56, 56)),
                      K.CONVOLUTION_FILTER_GRAD: ((image, result), (7, 7))}[kind]
    return B.convolution(kind, *operands, replace(attrs, size=size))


@pytest.mark.parametrize(("kind", "us"), [(K.CONVOLUTION, 41.7), (K.CONVOLUTION_INPUT_GRAD, 88.0),
                                          (K.CONVOLUTION_FILTER_GRAD, 45.8)])
def test_times_of_depthwise_ones(kind: K, us: float) -> None:
    """As they were measured on an H200."""
    assert CUDNN.measured_us(depthwise(kind, DType.BF16), H200.profile) == pytest.approx(us, rel=0.1)


def test_what_was_not_timed() -> None:
    assert CUDNN.measured_us(depthwise(K.CONVOLUTION, DType.F64), H200.profile) is None
    assert CUDNN.measured_us(node_of(ConvolutionPass.FORWARD), H200.profile) is None
    x, w = B.input("x:0", DType.F32, (2, 8, 28, 28, 64)), B.input("w:0", DType.F32, (64, 3, 3, 3, 1))
    assert CUDNN.measured_us(B.convolution(K.CONVOLUTION, x, w, replace(VOLUMES, groups=64)), H200.profile) is None


def test_strided_gradients_of_images_are_slow() -> None:
    dense, strided = (CUDNN.measured_us(depthwise(K.CONVOLUTION_INPUT_GRAD, DType.F32, stride), H200.profile)
                      for stride in (1, 2))
    assert dense is not None
    assert strided is not None
    assert strided > dense
