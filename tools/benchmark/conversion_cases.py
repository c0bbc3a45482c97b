"""SavedModels that `conversion_benchmark.py` converts, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

SEED = 1
SAMPLES = "samples.npz"


@dataclass(frozen=True)
class Case:
    """A model.

    Attributes:
        save: writes it to a folder.
        shapes: --input_shapes that it is converted and timed with.
        signature: that is converted and timed.
    """

    save: Callable[[Path], None]
    shapes: tuple[str, ...] = ()
    signature: str = "serving_default"


def application(name: str, folder: Path) -> None:
    """A network of keras.applications."""
    import keras

    keras.utils.set_random_seed(SEED)
    getattr(keras.applications, name)(weights=None).export(str(folder), verbose=False)


def encoder(layers: int, width: int, heads: int, folder: Path) -> None:
    """A text classifier: a transformer encoder of post-norm layers in Keras."""
    import keras

    keras.utils.set_random_seed(SEED)
    i = keras.Input((None,), dtype="int32", name="ids")
    h = keras.layers.Embedding(1000, width)(i)
    for _ in range(layers):
        h = keras.layers.LayerNormalization()(h + keras.layers.MultiHeadAttention(heads, width // heads)(h, h))
        inner = keras.layers.Dense(4 * width, activation="gelu")(h)
        h = keras.layers.LayerNormalization()(h + keras.layers.Dense(width)(inner))
    keras.Model(i, keras.layers.Dense(2, activation="softmax")(h[:, 0])).export(str(folder), verbose=False)


def zoo(name: str, folder: Path) -> None:
    """Inference of a model of the zoo, of the size that is for two cores, for the shapes of its first batch, which is
    kept beside the folder as SAMPLES."""
    import keras
    import numpy as np
    import tensorflow as tf

    from models.zoo import load

    keras.utils.set_random_seed(SEED)
    model = load(name)
    config = model.configs["medium"]
    batch = model.data(config, np.random.default_rng(SEED)).infer[0]
    network: Any = model.network(config)
    network.infer({key: tf.constant(value) for key, value in batch.items()})  # makes the variables
    module = tf.Module()
    # The resources themselves: a session restores those that the checkpoint has, and Keras' variables only hold them.
    module.network, module.kept = network, [variable.value for variable in network.variables]
    specs = {key: tf.TensorSpec(value.shape, value.dtype, name=key) for key, value in batch.items()}
    serve = tf.function(lambda **inputs: network.infer(inputs)).get_concrete_function(**specs)
    module.serve = serve
    tf.saved_model.save(module, str(folder), signatures=serve)
    np.savez(folder.with_name(SAMPLES), **batch)


CASES = {
    "MobileNetV2, 1": Case(partial(application, "MobileNetV2"), ("1,224,224,3",)),
    "DenseNet121, 1": Case(partial(application, "DenseNet121"), ("1,224,224,3",)),
    "EfficientNetB0, 1": Case(partial(application, "EfficientNetB0"), ("1,224,224,3",)),
    "encoder 12x256, 1 x 128": Case(partial(encoder, 12, 256, 4), ("1,128",)),
    "encoder 4x128, 8 x 64": Case(partial(encoder, 4, 128, 4), ("8,64",)),
    **{name: Case(partial(zoo, name)) for name in ("bert", "transformer", "dien", "crnn", "perceptron", "var-encoder")},
}
"""By name. A shape is of the only input."""
