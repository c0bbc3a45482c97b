"""Stitched programs with convolutions and poolings on a GPU. Each case is a process of its own: a minute in all with
`pytest -n 8`, beside ResNet-50."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.end_to_end.test_gpu import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

ALONE = {"TF_STITCH_GUARD": "0", "TF_STITCH_SCOPE": "region"}
VARIANTS = """
import numpy as np, tensorflow as tf
tf.config.experimental.enable_tensor_float_32_execution(False)
dtype = tf.as_dtype("DTYPE")
random = np.random.default_rng(SEED)
for case in range(9):
    groups = int(random.choice([1, 1, 2, 4]))
    each, kept = (int(random.choice([3, 4, 8, 16])) for _ in range(2))
    depthwise = case >= 6
    if depthwise: groups, each, kept = int(random.choice([3, 8, 32])), 1, int(random.choice([1, 2]))
    n, h, w = (int(random.integers(low, high)) for low, high in ((1, 5), (9, 20), (9, 20)))
    r, s = map(int, random.integers(1, 5, 2))
    strides, dilations = [int(d) for d in random.integers(1, 4, 2)], [1, 1]
    if depthwise: strides = [strides[0]] * 2  # and no dilations, which TensorFlow's kernel for GPUs lacks
    if case % 3 == 2 and not depthwise: strides, dilations = [1, 1], [int(d) for d in random.integers(1, 3, 2)]
    padding = ["SAME", "VALID", "EXPLICIT"][int(random.integers(3))]
    first = case % 2 == 1  # channels
    def axes(values, one=1): return [one, one, *values] if first else [one, *values, one]
    pads = [int(p) for p in random.integers(0, 3, 4)]
    explicit = ([0] * 4 + pads if first else [0, 0, *pads, 0, 0]) if padding == "EXPLICIT" else []
    x = tf.cast(random.standard_normal([n, groups * each, h, w] if first else [n, h, w, groups * each]) / 4, dtype)
    size = [r, s, groups, kept] if depthwise else [r, s, each, groups * kept]
    filters = tf.cast(random.standard_normal(size) / 4, dtype)
    convolution = tf.raw_ops.DepthwiseConv2dNative if depthwise else tf.raw_ops.Conv2D
    def step(x, filters):
        with tf.GradientTape() as tape:
            tape.watch((x, filters))
            y = convolution(input=tf.nn.relu(x), filter=filters, strides=axes(strides), padding=padding,
                            explicit_paddings=explicit, data_format="NCHW" if first else "NHWC",
                            dilations=axes(dilations))
            loss = tf.reduce_sum(tf.sin(y) * y)
        return [y + 1, *tape.gradient(loss, (x, filters))]
    stitched = tf.function(step)
    title = f"{case} {x.shape} {filters.shape} {strides} {dilations} {padding} {explicit}"
    want = step(x, filters)  # op by op
    for call in range(5):  # as a CUDA graph from the fourth
        for name, a, b in zip("y dx dw".split(), stitched(x, filters), want):
            a, b = tf.cast(a, tf.float64).numpy(), tf.cast(b, tf.float64).numpy()
            allowed = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}[dtype.name] * max(1.0, np.abs(b).max())
            np.testing.assert_allclose(a, b, rtol=0, atol=allowed, err_msg=f"{title} {name} {call}")
"""

VOLUMES = """
import numpy as np, tensorflow as tf
tf.config.experimental.enable_tensor_float_32_execution(False)
dtype = tf.as_dtype("DTYPE")
random = np.random.default_rng(SEED)
for case in range(8):
    groups = GROUPS
    each, kept = (int(random.choice([3, 4, 8, 16])) for _ in range(2))
    n, d, h, w = (int(random.integers(low, high)) for low, high in ((1, 4), (5, 10), (6, 12), (6, 12)))
    window = [1, 1, 1] if case == 6 else [int(e) for e in random.integers(1, 4, 3)]
    if case == 7: window[0] = 1
    strides, dilations = [int(s) for s in random.integers(1, 3, 3)], [1] * 3
    if case % 3 == 2: strides, dilations = [1] * 3, [int(random.integers(1, 3)), *[int(random.integers(1, 3))] * 2]
    if case >= 6: strides[0] = 1
    padding, first = ["SAME", "VALID"][int(random.integers(2))], case % 2 == 1  # channels
    def axes(values): return [1, 1, *values] if first else [1, *values, 1]
    c = groups * each
    x = tf.cast(random.standard_normal([n, c, d, h, w] if first else [n, d, h, w, c]) / 4, dtype)
    filters = tf.cast(random.standard_normal([*window, each, groups * kept]) / 4, dtype)
    def step(x, filters):
        with tf.GradientTape() as tape:
            tape.watch((x, filters))
            y = tf.raw_ops.Conv3D(input=tf.nn.relu(x), filter=filters, strides=axes(strides), padding=padding,
                                  data_format="NCDHW" if first else "NDHWC", dilations=axes(dilations))
            loss = tf.reduce_sum(tf.sin(y) * y)
        return [y + 1, *tape.gradient(loss, (x, filters))]
    stitched = tf.function(step)
    title = f"{case} {x.shape} {filters.shape} {strides} {dilations} {padding}"
    want = step(x, filters)  # op by op
    for call in range(5):  # as a CUDA graph from the fourth
        for name, a, b in zip("y dx dw".split(), stitched(x, filters), want):
            a, b = tf.cast(a, tf.float64).numpy(), tf.cast(b, tf.float64).numpy()
            allowed = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}[dtype.name] * max(1.0, np.abs(b).max())
            np.testing.assert_allclose(a, b, rtol=0, atol=allowed, err_msg=f"{title} {name} {call}")
"""

POOLINGS = """
import numpy as np, tensorflow as tf
dtype, axes = tf.as_dtype("DTYPE"), AXES
convolve, most, mean = {2: (tf.raw_ops.Conv2D, lambda x, **named: tf.raw_ops.MaxPool(input=x, **named),
                            lambda x, **named: tf.raw_ops.AvgPool(value=x, **named)),
                        3: (tf.raw_ops.Conv3D, lambda x, **named: tf.raw_ops.MaxPool3D(input=x, **named),
                            lambda x, **named: tf.raw_ops.AvgPool3D(input=x, **named))}[axes]
random = np.random.default_rng(0)
filters = tf.cast(np.eye(8)[(None,) * axes], dtype)  # for a graph with a convolution, which changes nothing
# Of each 4 x 4 (x 4) neighbours all are different whole numbers, or four by four the same.
numbers = np.stack([random.permutation(4 ** axes) // (4 if EQUAL else 1) for _ in range(24)])
values = np.tile(numbers.reshape(3, 8, *[4] * axes), (1, 1, *(2, 5, 4)[3 - axes:]))
values = values[(slice(None), slice(None), *(slice(size) for size in (7, 17, 14)[3 - axes:]))]
for window, strides, padding, first in (((3, 3, 3), (2, 2, 2), "SAME", False), ((2, 2, 2), (2, 2, 2), "VALID", True),
                                        ((1, 3, 2), (1, 1, 2), "SAME", True), ((2, 2, 3), (1, 3, 1), "VALID", False)):
    def sizes(along): return [1, 1, *along[3 - axes:]] if first else [1, *along[3 - axes:], 1]
    layout = "NCDHW" if first else "NDHWC"
    layout = layout if axes == 3 else layout.replace("D", "")
    settings = dict(ksize=sizes(window), strides=sizes(strides), padding=padding, data_format=layout)
    x = tf.cast(values if first else np.moveaxis(values, 1, -1), dtype)
    def step(x):
        x = convolve(input=x, filter=filters, strides=[1] * (axes + 2), padding="SAME", data_format=layout)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, z = most(x, **settings), mean(x, **settings)
            loss = tf.reduce_sum(tf.sin(y)) + tf.reduce_sum(tf.cos(z))
        return y, z, tape.gradient(loss, x)
    stitched = tf.function(step)
    want = step(x)  # op by op
    for call in range(5):
        for name, a, b in zip(("max", "mean", "gradient"), stitched(x), want):
            a, b = tf.cast(a, tf.float64).numpy(), tf.cast(b, tf.float64).numpy()
            allowed = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype.name] * max(1.0, np.abs(b).max())
            title = f"{window} {strides} {padding} {name} {call}"
            np.testing.assert_allclose(a, b, rtol=0, atol=allowed, err_msg=title)
"""

TRAINED = """
import keras, numpy as np, tensorflow as tf
from keras import layers
tf.config.experimental.enable_tensor_float_32_execution(False)
keras.mixed_precision.set_global_policy("POLICY")
NETWORK
def trained(function):
    model = network()
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        weights = [v.value for v in model.trainable_variables]
        for v, g in zip(weights, tape.gradient(loss, weights)):
            v.assign_sub(0.01 * tf.cast(g, v.dtype))
        return loss
    step = function(step)
    random = np.random.default_rng(0)
    losses = []
    for _ in range(STEPS):
        x, y = random.standard_normal((16, *model.input_shape[1:])).astype(np.float32), random.integers(0, 10, 16)
        losses.append(float(step(tf.constant(x), tf.constant(y))))
    return losses, [v.numpy() for v in model.variables], model(x, training=False).numpy()
got, want = trained(tf.function), trained(lambda f: f)
tolerance = 2e-3 if "POLICY" == "float32" else 5e-2
np.testing.assert_allclose(got[0], want[0], rtol=tolerance)
for a, b in zip(got[1], want[1]):
    if a.dtype.kind == "f": np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
np.testing.assert_allclose(got[2], want[2], rtol=10 * tolerance, atol=10 * tolerance)
"""

RESNET = """
def block(x, channels, stride):
    shortcut = x
    if stride > 1 or x.shape[-1] != channels:
        shortcut = layers.BatchNormalization()(layers.Conv2D(channels, 1, stride, use_bias=False)(x))
    y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(channels, 3, stride, "same", use_bias=False)(x)))
    y = layers.BatchNormalization()(layers.Conv2D(channels, 3, 1, "same", use_bias=False)(y))
    return layers.ReLU()(layers.Add()([y, shortcut]))
def network():
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((32, 32, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(16, 7, 2, "same")(x)))
    x = layers.MaxPooling2D(3, 2, "same")(x)
    x = layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(x))
    for channels, stride in ((16, 1), (32, 2), (64, 2)): x = block(x, channels, stride)
    x = layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, x)
"""

VIDEO = """
def network():
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((6, 16, 16, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv3D(16, (3, 5, 5), (1, 2, 2), "same")(x)))
    x = layers.MaxPooling3D(3, (1, 2, 2), "same")(x)
    y = layers.ReLU()(layers.BatchNormalization()(layers.Conv3D(32, (1, 3, 3), 2, "same", use_bias=False)(x)))
    y = layers.BatchNormalization()(layers.Conv3D(32, (3, 1, 1), padding="same", use_bias=False)(y))
    x = layers.ReLU()(y + layers.AveragePooling3D(2, padding="same")(layers.Conv3D(32, 1)(x)))
    x = layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling3D()(x))
    return keras.Model(inputs, x)
"""

DETERMINISTIC = """
import numpy as np, tensorflow as tf
tf.random.set_seed(1)
tf.config.experimental.enable_op_determinism()
random = np.random.default_rng(0)
w = tf.Variable(random.standard_normal((3, 3, 32, 32)).astype(np.float32) * 0.05)
@tf.function
def f(x):
    with tf.GradientTape() as tape:
        y = tf.nn.relu(tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")), w, 2, "SAME"))
        loss = tf.reduce_sum(y * y)
    return loss, tape.gradient(loss, w)
x = tf.constant(random.standard_normal((16, 28, 28, 32)).astype(np.float32))
results = {b"".join(value.numpy().tobytes() for value in f(x)) for _ in range(20)}
assert len(results) == 1, len(results)
"""

RESNET50 = """
import keras, numpy as np, tensorflow as tf
model = keras.applications.ResNet50(weights=None, input_shape=(96, 96, 3))
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        p = model(x, training=True)
        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, p))
    weights = [v.value for v in model.trainable_variables]
    for v, g in zip(weights, tape.gradient(loss, weights)): v.assign_sub(0.01 * g)
    return loss
x, y = tf.random.normal((8, 96, 96, 3)), tf.constant(np.arange(8))
losses = [float(step(x, y)) for _ in range(6)]
assert np.isfinite(losses).all() and losses[-1] < losses[0], losses
"""


def trained(network: str, policy: str, steps: int) -> str:
    """A program that trains a network and compares it with what TensorFlow trains op by op."""
    return TRAINED.replace("NETWORK", network).replace("POLICY", policy).replace("STEPS", str(steps))


def left_out(report: dict[str, list[dict[str, Any]]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for graph in report["graphs"]:
        for reason, count in graph["left_out"].items():
            found[reason] = found.get(reason, 0) + count
    return found


DTYPES = ("float32", "float16", "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
def test_variants(dtype: str, tmp_path: Path) -> None:
    report = run(VARIANTS.replace("DTYPE", dtype).replace("SEED", str(DTYPES.index(dtype))), tmp_path, **ALONE)
    assert not report["fallbacks"]
    assert not [reason for reason in left_out(report) if "onv2" in reason]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [1, 2])
def test_volumes(groups: int, dtype: str, tmp_path: Path) -> None:
    program = VOLUMES.replace("DTYPE", dtype).replace("SEED", str(DTYPES.index(dtype))).replace("GROUPS", str(groups))
    report = run(program, tmp_path, **ALONE)
    assert not report["fallbacks"]
    assert not [reason for reason in left_out(report) if "onv3" in reason]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("equal", [0, 1])
@pytest.mark.parametrize("axes", [2, 3])
def test_poolings(axes: int, equal: int, dtype: str, tmp_path: Path) -> None:
    """Of equal elements the first has the gradient, as in TensorFlow's kernels for GPUs."""
    program = POOLINGS.replace("DTYPE", dtype).replace("EQUAL", str(equal)).replace("AXES", str(axes))
    report = run(program, tmp_path, **ALONE)
    assert not report["fallbacks"]
    assert not [reason for reason in left_out(report) if "Pool" in reason]


@pytest.mark.parametrize(("policy", "steps"), [("mixed_bfloat16", 3), ("float32", 6)])
def test_a_small_resnet_trains_as_in_tensorflow(policy: str, steps: int, tmp_path: Path) -> None:
    report = run(trained(RESNET, policy, steps), tmp_path, **ALONE)
    assert not report["fallbacks"]
    assert not [reason for reason in left_out(report) if "Conv2D" in reason]


@pytest.mark.parametrize(("policy", "steps"), [("mixed_bfloat16", 3), ("float32", 6)])
def test_a_small_video_network_trains_as_in_tensorflow(policy: str, steps: int, tmp_path: Path) -> None:
    report = run(trained(VIDEO, policy, steps), tmp_path, **ALONE)
    assert not report["fallbacks"]
    assert not [reason for reason in left_out(report) if "Conv3D" in reason or "Pool" in reason]


def test_deterministic(tmp_path: Path) -> None:
    report = run(DETERMINISTIC, tmp_path, **ALONE)
    assert not report["fallbacks"]


def test_resnet50_is_few_regions(tmp_path: Path) -> None:
    report = run(RESNET50, tmp_path, **ALONE)
    assert not report["fallbacks"]
    assert len(report["regions"]) <= 3, left_out(report)
    assert not [reason for reason in left_out(report) if "Conv2D" in reason or "Pool" in reason]
