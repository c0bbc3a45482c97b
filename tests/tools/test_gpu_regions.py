"""Steps of small networks of images, of sequences, transformers and other kinds are one region each on an H200."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers
from keras.src.backend.tensorflow import nn

from models import kinds, language, lstm
from models.unet import unet
from models.vision import network as network_of
from tests.support.tiers import each_commit
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.plugin.keras_convolutions import without_xla
from tools.benchmark.gpu_regions import Counted, counted, regions_of

POLICIES = ("float32", "mixed_bfloat16")
HALVES_ON_REQUEST = pytest.mark.parametrize("policy", each_commit(["float32"], POLICIES), indirect=True)
"""Where no image is: regions are the same in halves, but for element types."""


@pytest.fixture(autouse=True, params=POLICIES)
def policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """TensorFlow puts channels first for the first, and last for the second. Keras has groups as it has on GPUs."""
    monkeypatch.setattr(nn, "conv", without_xla(nn, lambda x: True))
    keras.mixed_precision.set_global_policy(request.param)
    yield request.param
    keras.mixed_precision.set_global_policy("float32")


def convolutions() -> keras.Model:
    """What networks of images have between their convolutions."""
    x = inputs = keras.Input((32, 32, 3))
    x = layers.MaxPooling2D(3, 2, "same")(layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, 2)(x))))
    y = layers.DepthwiseConv2D(3, padding="same")(layers.ZeroPadding2D(1)(x))
    y = layers.Activation("hard_swish")(layers.BatchNormalization()(y))
    scale = layers.Conv2D(8, 1, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(y))
    y = layers.Concatenate()([y * scale, y])
    y = layers.UpSampling2D()(layers.AveragePooling2D(2)(layers.Conv2DTranspose(8, 3, 2, "same")(y)))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling2D()(y)))


def dilated() -> keras.Model:
    """TensorFlow moves blocks to the batch around convolutions of one axis."""
    x = inputs = keras.Input((32, 8))
    for dilation in (1, 2, 4):
        y = layers.Conv1D(8, 2, dilation_rate=dilation, padding="causal", activation="tanh")(x)
        x = x + layers.Conv1D(8, 1)(y)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling1D()(x)))


def windows() -> keras.Model:
    """Shifted, enlarged, and with channels for pixels."""
    x = inputs = keras.Input((8, 8, 4))
    x = layers.LayerNormalization()(keras.ops.roll(x, (2, -2), (1, 2)))
    x = layers.Conv2D(12, 3, padding="same")(layers.UpSampling2D(2, interpolation="bilinear")(x))
    x = layers.Lambda(lambda t: tf.nn.space_to_depth(tf.nn.depth_to_space(t, 2), 4))(x)
    x = layers.Lambda(lambda t: tf.math.cumprod(1 + t, 1))(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling2D()(x)))


def video() -> keras.Model:
    """Of images of three axes, with channels in groups, too."""
    x = inputs = keras.Input((6, 16, 16, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv3D(8, 3, padding="same")(x)))
    x = layers.MaxPooling3D((1, 2, 2))(layers.MaxPooling3D(3, (1, 2, 2), "same")(x))
    y = layers.ReLU()(layers.BatchNormalization()(layers.Conv3D(16, (1, 3, 3), 2, padding="same", groups=2)(x)))
    y = layers.Conv3D(16, (3, 1, 1), padding="same")(y) + layers.Conv3D(16, 1, 2)(x)
    y = layers.Conv3DTranspose(8, 3, 2, "same")(layers.AveragePooling3D(2, padding="same")(y))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling3D()(y)))


def recurrent() -> keras.Model:
    """Loops, unrolled: what TensorFlow put in front of them and behind keeps nothing apart."""
    x = inputs = keras.Input((6, 8))
    x = layers.Bidirectional(layers.LSTM(8, return_sequences=True))(layers.Dense(8)(x))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(layers.GRU(8)(x)))


NETWORKS = {"dilated": (dilated, ((32, 8),)), "windows": (windows, ((8, 8, 4),)), "recurrent": (recurrent, ((6, 8),)),
            "video": (video, ((6, 16, 16, 3),)), "convolutions": (convolutions, ((32, 32, 3),)),
            "unet": (lambda: unet(16, (8, 16)), ((16, 16, 3), ()))}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_one_region(name: str, mode: str) -> None:
    make, inputs = NETWORKS[name]
    model = make()
    network = network_of(model, inputs, keras.losses.mean_squared_error)
    given = [tf.TensorSpec((4, *shape), tf.float32) for shape in inputs]
    if mode == "train":
        given.insert(0, tf.TensorSpec((4, *model.output_shape[1:]), tf.float32))
    step = tf.function(network.train if mode == "train" else network.infer, autograph=False)
    count = counted(regions_of(step.get_concrete_function(*given)))
    assert (count.regions, dict(count.left_out)) == (1, {})


@HALVES_ON_REQUEST
@pytest.mark.parametrize("name", each_commit(["T5", "ViT"], language.NAMES))
def test_a_train_step_of_a_transformer(name: str, policy: str) -> None:
    """Biases that are learned and a convolution are in two of them, and whatever else is in the others."""
    network = language.build(name, language.SMALL[name])
    given = [tf.TensorSpec((4, *x.shape[1:]), x.dtype) for x in network.batch(1)]
    count = counted(regions_of(tf.function(network.train, autograph=False).get_concrete_function(*given)))
    assert (count.regions, dict(count.left_out)) == (1, {})


STAYS = {"FNet": "dtype complex64 is not in the IR", "DQN": "a dtype or rank that the IR lacks",
         "DiT": "TensorFlow has this small integer in host memory", "MaskedLanguage": "one working node together with"}
"""Why nodes of a network stay TensorFlow's, among others: Fourier transforms, frames of bytes, two labels or places."""


def train_step(name: str) -> Counted:
    network = kinds.build(name, small=True)
    given = [tf.TensorSpec(x.shape, x.dtype) for x in network.batch(2)]
    return counted(regions_of(tf.function(network.train, autograph=False).get_concrete_function(*given)))


@HALVES_ON_REQUEST
@pytest.mark.parametrize("name", each_commit(["SpectralGAN", "LoRA", "TabNet"],
                                             [name for name in kinds.NAMES if name not in STAYS]))
def test_a_train_step_of_another_kind(name: str, policy: str) -> None:
    """Branches, diagonals, sorted rows and variables that are overwritten unread among them."""
    count = train_step(name)
    assert (count.regions, dict(count.left_out)) == (1, {})


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STAYS)
def test_what_stays_of_another_kind(name: str) -> None:
    count = train_step(name)
    assert count.regions == (3 if name == "FNet" else 1)
    assert any(STAYS[name] in reason for reason in count.left_out)


def compiled(function: Any, device: DeviceSpec = H200) -> CompiledRegion:
    """The one region of a function."""
    [found] = regions_of(function).regions.regions
    return compile_region(found.graph, found.input_keys, found.variable_keys, CompileOptions(device))


def squeeze_and_excite(x: Any, channels: int, fewer: int) -> Any:
    """Names of its nodes have /se_ in them."""
    mean = layers.GlobalAveragePooling2D(keepdims=True, name="se_mean")(x)
    scale = layers.Conv2D(fewer, 1, activation="relu", name="se_fewer")(mean)
    scale = layers.Conv2D(channels, 1, activation="hard_sigmoid", name="se_all")(scale)
    return layers.Multiply(name="se_scaled")([x, scale])


@pytest.mark.parametrize(("size", "channels", "fewer"), [(12, 440, 112), (56, 72, 24)])
def test_squeeze_and_excite_of_one_image(size: int, channels: int, fewer: int) -> None:
    """A kernel by itself; in a graph of more launches five, since its nodes cost less than barriers of the grid."""
    inputs = keras.Input((size, size, channels))
    alone = keras.Model(inputs, squeeze_and_excite(inputs, channels, fewer))
    x = layers.BatchNormalization()(layers.DepthwiseConv2D(5, padding="same", use_bias=False)(inputs))
    x = squeeze_and_excite(layers.Activation("hard_swish")(x), channels, fewer)
    counts = []
    for model in (alone, keras.Model(inputs, layers.Conv2D(channels // 2, 1)(x))):
        step = tf.function(lambda x, model=model: model(x, training=False), autograph=False)
        region = compiled(step.get_concrete_function(tf.TensorSpec((1, size, size, channels))))
        counts.append(sum(any("/se_" in node.loc.node for node in kernel.schedule.pattern.nodes)
                          for kernel in region.kernels))
        assert not any("/se_" in node.loc.node for call in region.calls for node in call.nodes)
    assert counts[0] == 1
    assert counts[1] <= 5


@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
def test_attentions_with_learned_biases_are_trained_with_scores_in_memory(policy: str) -> None:
    """The gradient of a bias is a sum of what a kernel or a call keeps to itself; one without a bias is two calls."""
    network = language.build("T5", language.Config(1, 512, 8, 256, 100))
    given = [tf.TensorSpec((8, *x.shape[1:]), x.dtype) for x in network.batch(1)]
    step = tf.function(network.train, autograph=False).get_concrete_function(*given)
    region = compiled(step, replace(H200, fused_attention=True))
    assert [type(call.call).__name__ for call in region.calls].count("AttentionCall") == 2
    assert not any("attention" in kernel.schedule.family for kernel in region.kernels)
    scores = [call for call in region.calls if call.nodes[-1].type.shape[-2:] == (256, 256)]
    assert len(scores) == 4, "the scores and their gradients of two attentions"


@HALVES_ON_REQUEST
@pytest.mark.parametrize(("name", "cudnn", "regions"), [("LSTMLanguage", 0, 1), ("LSTMLanguageByCuDNN", 2, None)])
def test_recurrent_layers(monkeypatch: pytest.MonkeyPatch, name: str, cudnn: int, regions: int | None, policy: str
                          ) -> None:
    """Without cuDNN one region, loops and all; cuDNN's op stays, and what is around it is in regions."""
    monkeypatch.setattr(sys.modules["keras.src.backend.tensorflow.rnn"], "_is_gpu_available", lambda: True)
    network = lstm.build(name, lstm.SMALL)
    given = [tf.TensorSpec((4, *x.shape[1:]), x.dtype) for x in network.batch(1)]
    function = tf.function(network.train, autograph=False).get_concrete_function(*given)
    ops = [node.op for node in function.graph.as_graph_def().node]
    assert (ops.count("CudnnRNNV3"), ops.count("CudnnRNNBackpropV3")) == (cudnn, cudnn)
    count = counted(regions_of(function))
    assert regions in (None, count.regions)
    assert sum(n for reason, n in count.left_out.items() if "CudnnRNN" in reason) == 2 * cudnn
    assert len(count.left_out) == (2 if cudnn else 0)
