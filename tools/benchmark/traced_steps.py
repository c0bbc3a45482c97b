"""Steps of networks and of the zoo's models as concrete functions, for tools that find their regions without a GPU."""

from __future__ import annotations

from typing import Any

from tools.benchmark.network_cases import NetworkCase


def small_network(name: str, mode: str, policy: str, size: int, batch: int) -> Any:
    """A step of a network of models/vision.py, language.py or kinds in its size for tests.

    Args:
        policy: of element types, as Keras names it.
        size: height and width of the images of models/vision.py.
    """
    from models import kinds, language, vision

    _as_on_a_gpu(policy)
    network: Any = (language.build(name, language.SMALL[name]) if name in language.NAMES
                    else kinds.build(name, small=True) if name in kinds.NAMES else vision.build(name, size, classes=10))
    return _traced(network, mode, batch)


def network_case(case: NetworkCase) -> Any:
    """A step of a network in the size in which tools.network_benchmark times it."""
    from models import kinds, language, lstm, vision

    _as_on_a_gpu(case.policy)
    if case.size:
        return _traced(vision.build(case.network, case.size), case.mode, case.batch)
    makers: Any = next(module for module in (language, lstm, kinds) if case.network in module.NAMES)
    return _traced(makers.build(case.network), case.mode, case.batch)


def zoo_model(name: str, mode: str, config: str) -> Any:
    """A step of a model of models/zoo.py, for the first of its batches."""
    import numpy as np
    import tensorflow as tf

    from models import program, zoo

    _as_on_a_gpu("float32")
    model = zoo.load(name)
    data = model.data(model.configs[config], np.random.default_rng(0))
    traced = program.TracedProgram(model.network(model.configs[config]), model.optimizer(model.configs[config]), data,
                                   None)
    batches = data.train if mode == "train" else data.infer
    step = traced._train_step if mode == "train" else traced._network.infer
    return tf.function(step, autograph=False).get_concrete_function(program.signature(batches[:1]))


def _as_on_a_gpu(policy: str) -> None:
    import keras
    from keras.src.backend.tensorflow import nn

    from tf_stitch.plugin.keras_convolutions import without_xla

    keras.backend.clear_session()
    if not hasattr(nn.conv, "__wrapped__"):
        nn.conv = without_xla(nn, lambda x: True)
    keras.mixed_precision.set_global_policy(policy)


def _traced(network: Any, mode: str, batch: int) -> Any:
    import tensorflow as tf

    from models.kinds.objective import given

    specs = tuple(tf.TensorSpec(x.shape, x.dtype) for x in network.batch(batch))
    step = tf.function(getattr(network, mode), autograph=False)
    return step.get_concrete_function(*(given(network, specs) if mode == "infer" else specs))
