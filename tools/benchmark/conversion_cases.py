"""SavedModels that `conversion_benchmark.py` converts, with random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from models.zoo import NAMES, load

SEED = 1
BATCH_SEED = 0
"""With nmt's random weights two beams of the 48 that seeds 0 to 11 draw (of 1 and 11) are near-ties: TensorFlow's own
words are others when weights change by 1e-5. Those of this seed are none."""
SAMPLES = "samples.npz"


@dataclass(frozen=True)
class Case:
    """A model.

    Attributes:
        save: writes it to a folder.
        shape: of each of its inputs, as --input_shapes has it; "" where the model or SAMPLES say it.
        by: who made it.
        signature: that is converted and timed.
    """

    save: Callable[[Path], None]
    shape: str = ""
    by: str = "Keras"
    signature: str = "serving_default"


def application(name: str, folder: Path) -> None:
    """A network of keras.applications; its logits, since random weights leave little after a softmax."""
    import keras

    keras.utils.set_random_seed(SEED)
    getattr(keras.applications, name)(weights=None, classifier_activation=None).export(str(folder), verbose=False)


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

    keras.utils.set_random_seed(SEED)
    model = load(name)
    config = model.configs["medium"]
    batch = model.data(config, np.random.default_rng(BATCH_SEED)).infer[0]
    network: Any = model.network(config)
    specs = {key: tf.TensorSpec(value.shape, value.dtype, name=key) for key, value in batch.items()}
    call = tf.function(lambda **inputs: network.infer(inputs), autograph=False)
    serve = call.get_concrete_function(**specs)  # makes the variables
    module = tf.Module()
    # The resources themselves: a session restores those that the checkpoint has, and Keras' variables only hold them.
    module.network, module.kept = network, [variable.value for variable in network.variables]
    module.serve = serve
    tf.saved_model.save(module, str(folder), signatures=serve)
    np.savez(folder.with_name(SAMPLES), **batch)


def hub(name: str, sizes: Mapping[str, Any], folder: Path) -> None:
    """A backbone of keras_hub."""
    import keras
    import keras_hub

    keras.utils.set_random_seed(SEED)
    getattr(keras_hub.models, name)(**sizes).export(str(folder), verbose=False)


def quantized(folder: Path) -> None:
    """Dense layers whose weights are int8, by Keras 3."""
    import keras

    keras.utils.set_random_seed(SEED)
    i = h = keras.Input((256,), name="x")
    for _ in range(4):
        h = keras.layers.LayerNormalization()(h + keras.layers.Dense(256, activation="gelu")(h))
    model = keras.Model(i, keras.layers.Dense(10, activation="softmax")(h))
    model.quantize("int8", filters="dense")
    model.export(str(folder), verbose=False)


def graph_of_tensorflow_1(folder: Path) -> None:
    """simple_save of a graph with reference variables: convolutions, batch normalization, and an LSTM in a loop of
    TensorFlow 1 over the columns of the image."""
    import tensorflow as tf

    v1 = tf.compat.v1

    def weight(name: str, *shape: int) -> Any:
        return v1.get_variable(name, shape, initializer=v1.random_normal_initializer(stddev=0.1, seed=SEED),
                               use_resource=False)

    def block(x: Any, name: str, channels: int) -> Any:
        y = tf.nn.conv2d(x, weight(name, 3, 3, x.shape[-1], channels), 2, "SAME")
        ones, zeros = tf.ones([channels]), tf.zeros([channels])
        return tf.nn.relu(v1.nn.fused_batch_norm(y, ones, zeros, zeros, ones, is_training=False)[0])

    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_control_flow_v2()
        try:
            x = v1.placeholder(tf.float32, [None, 32, 64, 1], name="x")
            y = block(block(x, "first", 16), "second", 32)
            steps = tf.transpose(tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [-1, 16, 8 * 32]), [1, 0, 2])
            zeros = tf.zeros([tf.shape(x)[0], 64])
            gates = weight("gates", 8 * 32 + 64, 4 * 64)

            def step(t: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
                i, f, g, o = tf.split(tf.matmul(tf.concat([steps[t], h], 1), gates), 4, 1)
                c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(g)
                return t + 1, tf.sigmoid(o) * tf.tanh(c), c

            h = v1.while_loop(lambda t, h, c: t < 16, step, (0, zeros, zeros))[1]
            z = tf.nn.softmax(tf.matmul(h, weight("last", 64, 10)), name="z")
        finally:
            v1.enable_control_flow_v2()
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"z": z})


BERT = {"vocabulary_size": 1000, "num_layers": 4, "num_heads": 4, "hidden_dim": 128, "intermediate_dim": 512}
LLAMA = {"vocabulary_size": 1000, "num_layers": 4, "num_query_heads": 4, "num_key_value_heads": 2, "hidden_dim": 128,
         "intermediate_dim": 384}
VIT = {"image_shape": (64, 64, 3), "patch_size": 8, "num_layers": 4, "num_heads": 4, "hidden_dim": 128, "mlp_dim": 512}

CASES = {
    **{f"{name}, 1": Case(partial(application, name), "1,224,224,3", "Keras Applications")
       for name in ("MobileNetV2", "DenseNet121", "EfficientNetB0", "ResNet50")},
    "BERT 4x128, 4 x 64": Case(partial(hub, "BertBackbone", BERT), "4,64", "keras_hub"),
    "GPT-2 4x128, 4 x 64": Case(partial(hub, "GPT2Backbone", BERT), "4,64", "keras_hub"),
    "T5 4x128, 4 x 64": Case(partial(hub, "T5Backbone", BERT), "4,64", "keras_hub"),
    "Llama 4x128, 4 x 64": Case(partial(hub, "LlamaBackbone", LLAMA), "4,64", "keras_hub"),
    "ViT 4x128, 8": Case(partial(hub, "ViTBackbone", VIT), "8,64,64,3", "keras_hub"),
    "graph of TensorFlow 1, 4": Case(graph_of_tensorflow_1, "4,32,64,1", "TensorFlow 1"),
    "encoder 12x256, 1 x 128": Case(partial(encoder, 12, 256, 4), "1,128"),
    "encoder 4x128, 8 x 64": Case(partial(encoder, 4, 128, 4), "8,64"),
    "int8 4x256, 8": Case(quantized, "8,256"),
    **{name: Case(partial(zoo, name), by="the zoo") for name in NAMES},
}
"""By name."""
