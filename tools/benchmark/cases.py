"""What `benchmark.py` times: steps of the training scripts, as functions without arguments that return a number.

A case gets "tensorflow", "xla" or "tf_stitch". Only XLA needs to be asked for in code.
"""

from __future__ import annotations

from collections.abc import Callable

Step = Callable[[], float]
SEED = 1


def encoder_inference(backend: str) -> Step:
    """One batch of 64 images through the digits encoder; the mean square of its logits."""
    import digits_encoder
    import keras

    keras.utils.set_random_seed(SEED)
    model = digits_encoder.build_model(width=64, layers=2, heads=4, dropout=0.1)
    digits_encoder.compile_model(model, jit_compile=backend == "xla")
    images = digits_encoder.load_images()[1][0][:64]
    return lambda: float((model.predict_on_batch(images) ** 2).mean())


def encoder_train(backend: str) -> Step:
    """A training step of the digits encoder on 64 images; its loss."""
    import digits_encoder
    import keras

    keras.utils.set_random_seed(SEED)
    model = digits_encoder.build_model(width=64, layers=2, heads=4, dropout=0.1)
    digits_encoder.compile_model(model, jit_compile=backend == "xla")
    images, labels = (array[:64] for array in digits_encoder.load_images()[0])

    def step() -> float:
        model.reset_metrics()
        return float(model.train_on_batch(images, labels)[0])

    return step


def word2vec_train(backend: str) -> Step:
    """A training step of word2vec on 256 words; its loss. XLA comes by automatic clustering, as it does in TF1 code."""
    import numpy as np
    import tensorflow.compat.v1 as tf
    import word2vec_v1

    tf.disable_eager_execution()
    tf.set_random_seed(SEED)
    corpus = word2vec_v1.read_corpus(4000)
    graph = word2vec_v1.build_graph(len(corpus.words), 128, 64, np.arange(1, 9))
    batches = word2vec_v1.skip_grams(corpus.text, 256, 3, SEED)
    session = tf.Session()
    session.run(tf.global_variables_initializer())

    def step() -> float:
        words, neighbours = next(batches)
        return float(session.run([graph.loss, graph.train], {graph.words: words, graph.neighbours: neighbours})[0])

    return step


def char_train(backend: str) -> Step:
    """A training step of the character model on 32 pieces of 96; its loss."""
    import char_model
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(SEED)
    alphabet, text = char_model.read_characters()
    model = char_model.CharModel(len(alphabet), 96, 3, 0.1)
    trainer = char_model.Trainer(model, jit_compile=True if backend == "xla" else None)
    pieces = char_model.batches(text, 32, 96, SEED)
    return lambda: float(trainer.step(tf.constant(next(pieces))))


CASES: dict[str, Callable[[str], Step]] = {
    case.__name__: case for case in (encoder_inference, encoder_train, word2vec_train, char_train)
}
