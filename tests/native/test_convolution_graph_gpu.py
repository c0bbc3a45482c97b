"""Convolutions of the native op on a GPU with a bias, an addend and a rectifier behind them, against NumPy in float64;
and which of them cuDNN has kernels for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import Regions
from tests.native.test_cudnn_gpu import TOLERANCE, on_gpu
from tf_stitch.errors import TypeRuleError
from tf_stitch.ir.activations import Activation
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolutions import sizes_of, terms_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import TensorType
from tf_stitch.jit.libraries import words_of
from tf_stitch.libraries.cudnn import Convolution, ConvolutionPass
from tf_stitch.placement.executable import BufferRef, Executable, LibraryStep, encode
from tf_stitch.placement.executable_format import Space

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]
TF32 = 2e-3
FORMS = {"bias": (False, Activation.NONE), "bias relu": (False, Activation.RELU),
         "addend bias relu": (True, Activation.RELU)}
TYPES = (DType.F32, DType.F16, DType.BF16)
B = Builder()


@pytest.fixture(autouse=True)
def by_tensor_cores() -> Iterator[None]:
    with on_gpu(tf32=True):
        yield


def convolution(dtype: DType, image: tuple[int, ...], filters: tuple[int, ...], stride: int = 1, padding: int = 0,
                dilation: int = 1) -> Node:
    attrs = ConvolutionAttrs((stride, stride), (dilation, dilation), (padding, padding), 1)
    return B.convolution(K.CONVOLUTION, B.input("x:0", dtype, image), B.input("w:0", dtype, filters), attrs)


def random_convolution(seed: int, dtype: DType) -> Node:
    random = np.random.default_rng(seed)
    while True:
        c, k = (int(random.choice([1, 3, 4, 8, 16, 64])) for _ in range(2))
        stride, dilation, padding = (int(random.integers(low, high)) for low, high in ((1, 4), (1, 3), (0, 3)))
        image, window = ((int(n) for n in random.integers(1, most, 2)) for most in (20, 5))
        try:
            n = int(random.integers(1, 5))
            return convolution(dtype, (n, *image, c), (k, *window, c), stride, padding, dilation)
        except TypeRuleError:
            continue


def check(regions: Regions, node: Node, form: str) -> str:
    """Why cuDNN has no kernel, if it has none. Else runs a call a few times: the third run tries proposals on these
    buffers."""
    assert isinstance(node.attrs, ConvolutionAttrs)
    dtype, random, (addend, activation) = node.type.dtype, np.random.default_rng(0), FORMS[form]
    call = Convolution(ConvolutionPass.FORWARD, dtype, sizes_of(node), node.attrs, True, addend, activation)
    why = regions.library.try_calls(0, words_of(call))
    if why:
        return why
    shapes = [*(o.type.dims for o in node.operands), node.type.dims[-1:], *[node.type.dims] * addend]
    operands = [(random.standard_normal(shape) / 4).astype(dtype.numpy) for shape in shapes]
    image, filters, *added = (x.astype(np.float64) for x in operands)
    want = sum(added, node.info.reference(node.attrs, image, filters))
    if activation is Activation.RELU:
        want = np.maximum(want, 0)
    refs = (*(BufferRef(Space.INPUT, i) for i in range(len(operands))), BufferRef(Space.OUTPUT, 0))
    e = Executable(tuple("abcd"[:len(operands)]), (), (TensorType(dtype, node.type.dims),), (), (),
                   (LibraryStep(call, refs),), None)
    region = regions.add(lambda key: encode(e, {}))
    allowed = TF32 if dtype is DType.F32 else TOLERANCE[dtype]
    allowed *= max(1.0, float(np.abs(want).max())) * max(1.0, terms_of(node) / 256)
    for _ in range(4):
        [out] = regions.call(region, [tf.identity(x) for x in operands], types=[dtype.numpy])
        assert "GPU:0" in out.device
        np.testing.assert_allclose(out.numpy().astype(np.float64), want, 0, allowed, err_msg=str(call))
    assert regions.library.region_runs(region) == 4, str(call)
    return ""


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.value)
def test_random_convolutions(regions: Regions, dtype: DType, seed: int) -> None:
    """Those that cuDNN takes are right; `-rs` says which it does not."""
    node = random_convolution(seed, dtype)
    refused = {form: why for form in FORMS if (why := check(regions, node, form))}
    if refused:
        pytest.skip(f"{[*refused]}: {next(iter(refused.values()))}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.value)
@pytest.mark.parametrize(("image", "filters", "stride", "padding"), [
    ((1, 56, 56, 64), (64, 3, 3, 64), 1, 1), ((8, 28, 28, 128), (128, 3, 3, 128), 1, 1),
    ((1, 7, 7, 512), (512, 3, 3, 512), 1, 1), ((2, 230, 230, 3), (64, 7, 7, 3), 2, 0),
    ((4, 28, 28, 256), (256, 3, 3, 256), 2, 1), ((4, 56, 56, 256), (512, 1, 1, 256), 2, 0)], ids=str)
def test_convolutions_of_models(regions: Regions, dtype: DType, image: tuple[int, ...], filters: tuple[int, ...],
                                stride: int, padding: int, form: str) -> None:
    """cuDNN has kernels for them all that need not be compiled first."""
    assert check(regions, convolution(dtype, image, filters, stride, padding), form) == ""


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.value)
def test_what_is_no_number_stays_none(regions: Regions, dtype: DType) -> None:
    """A rectifier gives NaN for NaN, as TensorFlow's does."""
    node = convolution(dtype, (1, 8, 8, 64), (64, 3, 3, 64), 1, 1)
    assert isinstance(node.attrs, ConvolutionAttrs)
    call = Convolution(ConvolutionPass.FORWARD, dtype, sizes_of(node), node.attrs, True, False, Activation.RELU)
    shapes = [*(o.type.dims for o in node.operands), (64,)]
    image, filters, bias = (np.ones(shape, dtype.numpy) for shape in shapes)
    image[0, 0, 0, 0] = np.nan
    refs = (*(BufferRef(Space.INPUT, i) for i in range(3)), BufferRef(Space.OUTPUT, 0))
    e = Executable(tuple("abc"), (), (TensorType(dtype, node.type.dims),), (), (), (LibraryStep(call, refs),), None)
    region = regions.add(lambda key: encode(e, {}))
    for _ in range(4):
        [out] = regions.call(region, [tf.identity(x) for x in (image, filters, bias)], types=[dtype.numpy])
        none = np.isnan(out.numpy().astype(np.float32))
        assert none[0, :2, :2].all()
        assert none.sum() == 4 * 64
