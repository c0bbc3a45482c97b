"""Convolutions of the native op on a GPU against NumPy in float64: sizes, strides, dilations, padding and groups at
random, and both gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import Regions
from tf_stitch.errors import TypeRuleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolutions import sizes_of, terms_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import TensorType
from tf_stitch.libraries.cudnn import Convolution, ConvolutionPass
from tf_stitch.placement.executable import BufferRef, Executable, LibraryStep, encode
from tf_stitch.placement.executable_format import Space

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]
TOLERANCE = {DType.F64: 1e-12, DType.F32: 4e-6, DType.F16: 2e-3, DType.BF16: 2e-2}
"""Relative to the largest element of a result."""
CASES = 16
B = Builder()


@contextmanager
def on_gpu(tf32: bool) -> Iterator[None]:
    allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(tf32)
    with tf.device("/GPU:0"):
        yield
    tf.config.experimental.enable_tensor_float_32_execution(allowed)


@pytest.fixture(autouse=True)
def exactly() -> Iterator[None]:
    with on_gpu(tf32=False):
        yield


def random_convolution(seed: int, dtype: DType, axes: int) -> Node:
    """One that has windows."""
    random, largest = np.random.default_rng(seed), 20 if axes == 2 else 9
    while True:
        groups = int(random.choice([1, 1, 1, 2, 4]))
        each, kept = (int(random.choice([1, 3, 4, 8, 16])) for _ in range(2))
        attrs = ConvolutionAttrs(*(tuple(map(int, random.integers(low, high, axes)))
                                   for low, high in ((1, 4), (1, 3), (0, 3))), groups)
        size, window = (tuple(map(int, random.integers(1, most, axes))) for most in (largest, 5))
        image = B.input("x:0", dtype, (int(random.integers(1, 5)), *size, groups * each))
        filters = B.input("w:0", dtype, (groups * kept, *window, each))
        try:
            return B.convolution(K.CONVOLUTION, image, filters, attrs)
        except TypeRuleError:
            continue


def passes(node: Node) -> dict[ConvolutionPass, Node]:
    """A convolution and its gradients."""
    assert isinstance(node.attrs, ConvolutionAttrs)
    image, filters = node.operands
    grad = B.input("y:0", node.type.dtype, node.type.dims)
    return {ConvolutionPass.FORWARD: node,
            ConvolutionPass.INPUT_GRADIENT: B.convolution(K.CONVOLUTION_INPUT_GRAD, grad, filters,
                                                          replace(node.attrs, size=image.type.dims[1:-1])),
            ConvolutionPass.FILTER_GRADIENT: B.convolution(K.CONVOLUTION_FILTER_GRAD, image, grad,
                                                           replace(node.attrs, size=filters.type.dims[1:-1]))}


def check(regions: Regions, which: ConvolutionPass, node: Node) -> None:
    """Runs a call a few times: the third run tries the library's proposals on these buffers."""
    assert isinstance(node.attrs, ConvolutionAttrs)
    dtype, random = node.type.dtype, np.random.default_rng(0)
    call = Convolution(which, dtype, sizes_of(node), node.attrs)
    operands = [(random.standard_normal(o.type.dims) / 4).astype(dtype.numpy) for o in node.operands]
    want = node.info.reference(node.attrs, *(x.astype(np.float64) for x in operands))
    refs = (BufferRef(Space.INPUT, 0), BufferRef(Space.INPUT, 1), BufferRef(Space.OUTPUT, 0))
    e = Executable(("a", "b"), (), (TensorType(dtype, node.type.dims),), (), (), (LibraryStep(call, refs),), None)
    region = regions.add(lambda key: encode(e, {}))
    for _ in range(4):
        [out] = regions.call(region, [tf.identity(x) for x in operands], types=[dtype.numpy])
        assert "GPU:0" in out.device
        allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(want).max())) * max(1.0, terms_of(node) / 256)
        np.testing.assert_allclose(out.numpy().astype(np.float64), want, 0, allowed, err_msg=str(call))
    assert regions.library.region_runs(region) == 4, str(call)


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.value)
@pytest.mark.parametrize("axes", [2, 3])
def test_random_convolutions(regions: Regions, axes: int, dtype: DType, seed: int) -> None:
    for which, node in passes(random_convolution(seed, dtype, axes)).items():
        check(regions, which, node)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16], ids=lambda d: d.value)
@pytest.mark.parametrize(("image", "filters", "attrs"), [
    ((8, 28, 28, 64), (64, 3, 3, 64), ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1)),
    ((4, 229, 229, 3), (64, 7, 7, 3), ConvolutionAttrs((2, 2), (1, 1), (0, 0), 1)),
    ((8, 28, 28, 64), (128, 1, 1, 64), ConvolutionAttrs((2, 2), (1, 1), (0, 0), 1)),
    ((2, 14, 14, 96), (96, 7, 7, 1), ConvolutionAttrs((1, 1), (1, 1), (3, 3), 96)),
    ((2, 14, 14, 128), (256, 3, 3, 4), ConvolutionAttrs((1, 1), (1, 1), (1, 1), 32)),
    ((2, 16, 28, 28, 3), (64, 3, 7, 7, 3), ConvolutionAttrs((1, 2, 2), (1, 1, 1), (1, 0, 0), 1)),
    ((2, 8, 14, 14, 64), (64, 3, 3, 3, 64), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (1, 1, 1), 1)),
    ((2, 8, 14, 14, 64), (144, 1, 3, 3, 64), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (0, 1, 1), 1)),
    ((2, 8, 14, 14, 144), (64, 3, 1, 1, 144), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (1, 0, 0), 1)),
    ((2, 8, 14, 14, 64), (64, 3, 3, 3, 1), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (1, 1, 1), 64))], ids=str)
def test_convolutions_of_models(regions: Regions, dtype: DType, image: tuple[int, ...], filters: tuple[int, ...],
                                attrs: ConvolutionAttrs) -> None:
    node = B.convolution(K.CONVOLUTION, B.input("x:0", dtype, image), B.input("w:0", dtype, filters), attrs)
    for which, one in passes(node).items():
        check(regions, which, one)


def test_tf32_where_tensorflow_allows_it(regions: Regions) -> None:
    """Allowed it is less exact by far, if not by as much as halves are."""
    node = B.convolution(K.CONVOLUTION, B.input("x:0", DType.F32, (8, 28, 28, 64)),
                         B.input("w:0", DType.F32, (64, 3, 3, 64)), ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1))
    random = np.random.default_rng(0)
    operands = [random.standard_normal(o.type.dims).astype(np.float32) for o in node.operands]
    want = node.info.reference(node.attrs, *(x.astype(np.float64) for x in operands))
    call = Convolution(ConvolutionPass.FORWARD, DType.F32, sizes_of(node), node.attrs)  # type: ignore[arg-type]
    refs = (BufferRef(Space.INPUT, 0), BufferRef(Space.INPUT, 1), BufferRef(Space.OUTPUT, 0))
    e = Executable(("a", "b"), (), (TensorType(DType.F32, node.type.dims),), (), (), (LibraryStep(call, refs),), None)

    def error(allowed: bool) -> float:
        tf.config.experimental.enable_tensor_float_32_execution(allowed)
        region = regions.add(lambda key: encode(e, {}))
        found = [regions.call(region, [tf.identity(x) for x in operands], types=[np.float32])[0] for _ in range(4)]
        return max(float(np.abs(out.numpy() - want).max() / np.abs(want).max()) for out in found)

    precise, allowed = error(False), error(True)
    assert precise < 2e-6, (precise, allowed)
    assert 2e-5 < allowed < 2e-3, (precise, allowed)
