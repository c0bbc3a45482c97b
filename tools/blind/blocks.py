"""Blocks that drawn networks are made of, in plain Keras 3: images, tables, and what any network has."""

from __future__ import annotations

from typing import Any

from keras import layers


def normalized(x: Any, norm: str) -> Any:
    """By batch, layer, group or rms; as it is by none."""
    if norm == "none":
        return x
    make = {"batch": layers.BatchNormalization, "layer": layers.LayerNormalization, "rms": layers.RMSNormalization,
            "group": lambda: layers.GroupNormalization(8)}[norm]
    return make()(x)


def activated(x: Any, activation: str) -> Any:
    return layers.Activation(activation)(x)


def convolution(x: Any, filters: int, kernel: int, stride: int = 1, norm: str = "batch", activation: str = "relu",
                groups: int = 1) -> Any:  # fmt: skip
    x = layers.Conv2D(filters, kernel, stride, "same", groups=groups, use_bias=norm == "none")(x)
    return activated(normalized(x, norm), activation)


def residual(x: Any, filters: int, stride: int, norm: str, activation: str) -> Any:
    """Two convolutions beside what they are given."""
    y = convolution(x, filters, 3, stride, norm, activation)
    y = normalized(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y), norm)
    return activated(_shortcut(x, filters, stride, norm) + y, activation)


def bottleneck(x: Any, filters: int, stride: int, norm: str, activation: str, groups: int = 1) -> Any:
    """A convolution of few channels between two of one pixel."""
    y = convolution(x, filters // 4, 1, 1, norm, activation)
    y = convolution(y, filters // 4, 3, stride, norm, activation, groups)
    y = normalized(layers.Conv2D(filters, 1, use_bias=False)(y), norm)
    return activated(_shortcut(x, filters, stride, norm) + y, activation)


def inverted(x: Any, filters: int, stride: int, expansion: int, kernel: int, activation: str, excited: bool) -> Any:
    """A depthwise convolution of many channels between two of one pixel."""
    y = convolution(x, expansion * x.shape[-1], 1, 1, "batch", activation)
    y = layers.DepthwiseConv2D(kernel, stride, "same", use_bias=False)(y)
    y = activated(normalized(y, "batch"), activation)
    if excited:
        y = excitation(y, 4, activation)
    y = normalized(layers.Conv2D(filters, 1, use_bias=False)(y), "batch")
    return x + y if x.shape == y.shape else y


def excitation(x: Any, ratio: int, activation: str) -> Any:
    """Scales channels by what all pixels say."""
    channels = x.shape[-1]
    y = layers.GlobalAveragePooling2D(keepdims=True)(x)
    y = layers.Conv2D(max(channels // ratio, 4), 1, activation=activation)(y)
    return x * layers.Conv2D(channels, 1, activation="sigmoid")(y)


def convnext(x: Any, kernel: int, expansion: int, activation: str) -> Any:
    """A wide depthwise convolution, a norm, and a perceptron of each pixel."""
    channels = x.shape[-1]
    y = layers.LayerNormalization()(layers.DepthwiseConv2D(kernel, padding="same")(x))
    return x + layers.Dense(channels)(layers.Dense(expansion * channels, activation=activation)(y))


def dense_block(x: Any, growth: int, count: int, activation: str) -> Any:
    """Convolutions that each see all before them; then half as many channels."""
    for _ in range(count):
        y = convolution(activated(normalized(x, "batch"), activation), 4 * growth, 1, 1, "batch", activation)
        x = layers.Concatenate()([x, layers.Conv2D(growth, 3, padding="same", use_bias=False)(y)])
    return layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(activated(normalized(x, "batch"), activation))


def upsampled(x: Any, beside: Any, filters: int, how: str, norm: str, activation: str) -> Any:
    """Twice as high and wide, with what an encoder had in that size."""
    if how == "transposed":
        x = layers.Conv2DTranspose(filters, 2, 2, "same")(x)
    else:
        x = layers.UpSampling2D(2, interpolation=how)(x)
    return convolution(layers.Concatenate()([x, beside]), filters, 3, 1, norm, activation)


def volume(x: Any, filters: int, stride: int, norm: str, activation: str) -> Any:
    """A convolution in three dimensions, beside what it is given where that has its shape."""
    y = layers.Conv3D(filters, 3, stride, "same", use_bias=norm == "none")(x)
    y = activated(normalized(y, norm), activation)
    return x + y if x.shape == y.shape else y


def perceptron(x: Any, width: int, norm: str, activation: str, dropout: float, beside: bool) -> Any:
    """A dense layer of a table's rows."""
    y = activated(normalized(layers.Dense(width)(x), norm), activation)
    if dropout:
        y = layers.Dropout(dropout)(y)
    return x + y if beside and x.shape == y.shape else y


def gated(x: Any, width: int) -> Any:
    """A gated linear unit (Dauphin et al., 2017)."""
    return layers.Dense(width)(x) * layers.Dense(width, activation="sigmoid")(x)


def crossed(x: Any, given: Any) -> Any:
    """Products of features (DCN-v2)."""
    return x + given * layers.Dense(given.shape[-1])(x)


def _shortcut(x: Any, filters: int, stride: int, norm: str) -> Any:
    if stride == 1 and x.shape[-1] == filters:
        return x
    return normalized(layers.Conv2D(filters, 1, stride, use_bias=False)(x), norm)
