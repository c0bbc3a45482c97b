"""Transposes beside convolutions: counted where a kernel does nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import nn

from models import vision
from models.unet import unet
from tests.differential.runner import keys_of, region
from tests.support.tiers import each_commit, of_today
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import H200
from tf_stitch.errors import SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.plugin.keras_convolutions import without_xla
from tf_stitch.report.transposes import ConvolutionTransposes, transposes_beside_convolutions
from tools.benchmark.gpu_regions import regions_of

B = Builder(SourceLoc("conv", "Conv2D"))
FAMILIES = ("ResNet50", "MobileNetV3Large", "EfficientNetB0", "ConvNeXtTiny", "DenseNet121", "UNet")
AS_SUMS = {"MobileNetV3Large": 2, "EfficientNetB0": 2}
"""At most so many gradients of 16 filters of one element are sums that read an operand transposed."""


def compiled(*outputs: Node) -> CompiledRegion:
    graph = region("g", list(outputs))
    return compile_region(graph, *keys_of(graph), CompileOptions(H200))


def convolution(x: Node, filters: Node) -> Node:
    return B.convolution(OpKind.CONVOLUTION, x, filters, ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1, ()))


def given(name: str, *shape: int) -> Node:
    return Builder().input(f"{name}:0", DType.F32, shape)


def test_filters_and_images() -> None:
    x, filters = given("x", 2, 40, 40, 64), given("f", 3, 3, 64, 96)
    turned = B.transpose(filters, (3, 0, 1, 2))
    assert transposes_beside_convolutions(compiled(convolution(x, turned))) == ConvolutionTransposes(1, 1, 0)
    first = B.transpose(given("x", 2, 64, 40, 40), (0, 2, 3, 1))
    plain = given("f", 96, 3, 3, 64)
    assert transposes_beside_convolutions(compiled(convolution(first, plain))) == ConvolutionTransposes(1, 0, 1)
    result = B.transpose(convolution(x, plain), (0, 3, 1, 2))
    assert transposes_beside_convolutions(compiled(result)) == ConvolutionTransposes(1, 0, 1)
    scaled = B.mul(first, B.scalar_like(2, first))
    assert transposes_beside_convolutions(compiled(convolution(scaled, plain))) == ConvolutionTransposes(1, 0, 0)
    assert transposes_beside_convolutions(compiled(B.transpose(x, (0, 3, 1, 2)))) == ConvolutionTransposes()


def test_in_words() -> None:
    assert str(ConvolutionTransposes(3)) == "3 convolutions, no transpose beside them"
    assert str(ConvolutionTransposes(3, 2)) == (
        "3 convolutions, transposes beside them: 2 of filters for the library, none of images")


CASES = [(name, mode, policy) for name in FAMILIES for mode in ("infer", "train")
         for policy in ("float32", "mixed_bfloat16")]
QUICK = [(name, mode, policy) for name, mode, policy in CASES
         if policy == "float32" and (mode == "infer" or name in ("ConvNeXtTiny", "UNet"))]


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keras has groups as it has there."""
    monkeypatch.setattr(nn, "conv", without_xla(nn, lambda x: True))
    yield
    keras.mixed_precision.set_global_policy("float32")


@pytest.mark.of_today
@pytest.mark.parametrize("case", each_commit(of_today(QUICK, 3), CASES), ids="-".join)
def test_no_image_is_transposed_beside_a_convolution(case: tuple[str, str, str]) -> None:
    """TensorFlow puts channels first for float32, and last for halves."""
    name, mode, policy = case
    keras.mixed_precision.set_global_policy(policy)
    network = vision.network(unet(32, (16, 32)), ((32, 32, 3), ()), keras.losses.mean_squared_error) \
        if name == "UNet" else vision.build(name, 64, classes=10)
    wanted, *inputs = (tf.TensorSpec((2, *x.shape[1:]), x.dtype) for x in network.batch(1))
    step = tf.function(network.train if mode == "train" else network.infer, autograph=False)
    concrete = step.get_concrete_function(*((wanted, *inputs) if mode == "train" else inputs))
    [found] = regions_of(concrete).regions.regions
    counted = transposes_beside_convolutions(
        compile_region(found.graph, found.input_keys, found.variable_keys, CompileOptions(H200)))
    assert counted.convolutions > 10
    assert counted.images <= (AS_SUMS.get(name, 0) if mode == "train" else 0)
