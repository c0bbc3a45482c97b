"""Draws networks of images and volumes."""

from __future__ import annotations

from tools.blind.draft import Draft

APPLICATIONS = ("ConvNeXtSmall", "DenseNet169", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3",
                "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3", "EfficientNetV2S", "InceptionResNetV2",
                "MobileNet", "MobileNetV2", "MobileNetV3Small", "NASNetMobile", "ResNet101", "ResNet101V2",
                "ResNet152V2", "VGG19")  # fmt: skip
"""Of Keras, but for those that this repository has been made faster by."""

WIDENED = ("MobileNet", "MobileNetV2")
"""Those whose width is drawn, too."""


def application(draft: Draft) -> None:
    """One of Keras' own."""
    name = draft.pick(APPLICATIONS)
    side = draft.size(96, 288, 32, tiny=96)
    classes = draft.one_of((10, 100, 365, 1000))
    width = f", alpha={draft.pick(('0.5', '0.75', '1.0', '1.25'))}" if name in WIDENED else ""
    draft.input("image", (side, side, 3))
    draft.add(f"keras.applications.{name}(weights=None, input_tensor=image, classes={classes}, "
              f"classifier_activation=None{width}).output")
    draft.classes(classes)
    draft.title = f"{name} {side} x {side}"
    draft.random_steps |= name.startswith(("EfficientNet", "MobileNetV3")) or name == "MobileNet"


def classifier(draft: Draft) -> None:
    """Stages of one kind of block, each half as high and wide as the one before."""
    side, depth = _image(draft)
    kind = draft.pick(tuple(_STAGES))
    channels = draft.size(16, 96, 16, tiny=8)
    norm, activation = draft.pick(("batch", "batch", "group", "layer")), draft.pick(("relu", "silu", "gelu", "elu"))
    stride = 2 if side < 96 else 4
    draft.add(f"blocks.convolution(x, {channels}, {stride + draft.one_of((1, 3))}, {stride}, {norm!r}, "
              f"{activation!r})")
    for stage in range(depth):
        _STAGES[kind](draft, channels * 2 ** stage, stage > 0, norm, activation)
    if draft.chance(0.3):
        draft.add("layers.Flatten()(layers.MaxPooling2D(2)(x))")
        draft.add(f"layers.Dense({draft.size(64, 1024, 64, tiny=8)}, activation={activation!r})(x)")
    else:
        draft.add("layers.GlobalAveragePooling2D()(x)")
    rate = draft.dropout()
    if rate:
        draft.add(f"layers.Dropout({rate})(x)")
    classes = draft.one_of((10, 100, 1000))
    draft.add(f"layers.Dense({classes})(x)")
    draft.classes(classes)
    draft.title = f"image classifier of {kind} blocks ({norm}, {activation}), {side} x {side}"


def dense_prediction(draft: Draft) -> None:
    """An encoder and a decoder that has its pixels back: classes of pixels, or images."""
    side = draft.size(64, 320, 32, tiny=32)
    depth = draft.one_of((2, 3, 4))
    channels = draft.size(16, 64, 16, tiny=8)
    norm, activation = draft.pick(("batch", "group", "layer")), draft.pick(("relu", "silu", "leaky_relu"))
    how = draft.pick(("transposed", "nearest", "bilinear"))
    draft.input("image", (side, side, draft.one_of((1, 3))))
    draft.line("x = image")
    for level in range(depth):
        for _ in range(2):
            draft.add(f"blocks.convolution(x, {channels * 2 ** level}, 3, 1, {norm!r}, {activation!r})")
        draft.line(f"level_{level} = x")
        pool = draft.pick(("layers.MaxPooling2D(2)(x)", "layers.AveragePooling2D(2)(x)"))
        draft.add(pool)
    draft.add(f"blocks.residual(x, {channels * 2 ** depth}, 1, {norm!r}, {activation!r})")
    for level in reversed(range(depth)):
        draft.add(f"blocks.upsampled(x, level_{level}, {channels * 2 ** level}, {how!r}, {norm!r}, {activation!r})")
    if draft.chance(0.5):
        classes = draft.one_of((2, 21, 150))
        draft.add(f"layers.Conv2D({classes}, 1)(x)")
        draft.classes(classes, (side, side))
        draft.title = f"segmentation in {classes} classes ({how}), {side} x {side}"
    else:
        draft.add("layers.Conv2D(3, 3, padding='same')(x)")
        draft.numbers((side, side, 3), draft.pick(("mean_squared_error", "mean_absolute_error", "huber")))
        draft.title = f"image to image ({how}), {side} x {side}"


def volumes(draft: Draft) -> None:
    """Convolutions in three dimensions."""
    side, frames = draft.size(24, 96, 8, tiny=8), draft.size(8, 32, 8, tiny=8)
    channels = draft.size(16, 48, 8, tiny=8)
    norm, activation = draft.pick(("batch", "group")), draft.pick(("relu", "silu"))
    draft.input("volume", (frames, side, side, draft.one_of((1, 3))))
    draft.line("x = volume")
    for stage in range(3):
        draft.add(f"blocks.volume(x, {channels * 2 ** stage}, 2, {norm!r}, {activation!r})")
        draft.add(f"blocks.volume(x, {channels * 2 ** stage}, 1, {norm!r}, {activation!r})")
    draft.add("layers.GlobalAveragePooling3D()(x)")
    classes = draft.one_of((2, 10, 101))
    draft.add(f"layers.Dense({classes})(x)")
    draft.classes(classes)
    draft.title = f"volumes {frames} x {side} x {side} ({norm}, {activation})"


def _image(draft: Draft) -> tuple[int, int]:
    """An input; its height and width, and how many stages it has."""
    side = draft.size(32, 256, 32, tiny=32)
    draft.input("image", (side, side, draft.one_of((1, 3))))
    draft.line("x = image")
    return side, 2 if draft.tiny else 3 + (side > 96)


def _of_residuals(draft: Draft, filters: int, halved: bool, norm: str, activation: str) -> None:
    for block in range(draft.one_of((1, 2, 3))):
        draft.add(f"blocks.residual(x, {filters}, {1 + (halved and block == 0)}, {norm!r}, {activation!r})")


def _of_bottlenecks(draft: Draft, filters: int, halved: bool, norm: str, activation: str) -> None:
    groups = draft.one_of((1, 1, 4, 8))
    for block in range(draft.one_of((1, 2, 3, 4))):
        draft.add(f"blocks.bottleneck(x, {4 * filters}, {1 + (halved and block == 0)}, {norm!r}, {activation!r}, "
                  f"{groups})")


def _of_inverted(draft: Draft, filters: int, halved: bool, norm: str, activation: str) -> None:
    expansion, kernel, excited = draft.one_of((2, 4, 6)), draft.one_of((3, 5)), draft.chance(0.5)
    for block in range(draft.one_of((1, 2, 3))):
        draft.add(f"blocks.inverted(x, {filters}, {1 + (halved and block == 0)}, {expansion}, {kernel}, "
                  f"{activation!r}, {excited})")


def _of_convnext(draft: Draft, filters: int, halved: bool, norm: str, activation: str) -> None:
    if halved:
        draft.add(f"layers.Conv2D({filters}, 2, 2)(layers.LayerNormalization()(x))")
    kernel, expansion = draft.one_of((5, 7)), draft.one_of((2, 4))
    for _ in range(draft.one_of((1, 2, 3))):
        draft.add(f"blocks.convnext(x, {kernel}, {expansion}, {activation!r})")


def _of_dense_blocks(draft: Draft, filters: int, halved: bool, norm: str, activation: str) -> None:
    if halved:
        draft.add("layers.AveragePooling2D(2)(x)")
    draft.add(f"blocks.dense_block(x, {draft.one_of((8, 16, 24))}, {draft.one_of((2, 4, 6))}, {activation!r})")


def _of_excited(draft: Draft, filters: int, halved: bool, norm: str, activation: str) -> None:
    draft.add(f"blocks.residual(x, {filters}, {1 + halved}, {norm!r}, {activation!r})")
    draft.add(f"x + blocks.excitation(x, {draft.one_of((4, 8, 16))}, {activation!r})")


_STAGES = {"residual": _of_residuals, "bottleneck": _of_bottlenecks, "inverted": _of_inverted,
           "ConvNeXt": _of_convnext, "dense": _of_dense_blocks, "excited": _of_excited}  # fmt: skip
