"""What small networks of models/language.py, models/vision.py and models/kinds answer, and what training does, as
JSON: of those of vision.py the loss before a step and how far it moves weights, of the others losses of three steps.

Usage: networks.py POLICY NAME...
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models import kinds, language, vision
from models.kinds.objective import given

CLASSES = 10
SIZES, BATCHES = {"UNet": 32}, {"UNet": 4, **dict.fromkeys(language.NAMES, 4)}
"""Height and width of images, 64 where nothing else is said, and how many examples, else 8: batch norms in training see
32 numbers of a channel at least. With few they amplify roundings, and so does every step of gradient descent."""


def build(name: str) -> Any:
    if name in vision.NAMES:
        return vision.build(name, SIZES.get(name, 64), CLASSES)
    if name in kinds.NAMES:
        return kinds.build(name, small=True)
    return language.build(name, language.SMALL[name])


def numbers(value: Any) -> list[float]:
    """A few of an output."""
    flat = tf.cast(value, tf.float32).numpy().ravel()
    return [float(np.abs(flat).mean()), *map(float, flat[::max(1, flat.size // 8)])]


def norms(arrays: list[Any]) -> list[float]:
    """Of some of them, from the first to the last."""
    return [float(np.linalg.norm(array)) for array in arrays[::max(1, len(arrays) // 8)]]


found = {}
policy, *names = sys.argv[1:]
for name in names:
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(policy)
    network = build(name)
    batch = tuple(map(tf.constant, network.batch(BATCHES.get(name, 8))))
    step, infer = (tf.function(f, autograph=False) for f in (network.train, network.infer))
    outputs = numbers(infer(*given(network, batch)))
    weights = network.model.trainable_variables if name in vision.NAMES else []
    first = [np.array(weight.value) for weight in weights]
    losses = [float(step(*batch)) for _ in range(1 if name in vision.NAMES else 3)]
    found[name] = {"outputs": outputs, "losses": losses}
    if name in vision.NAMES:
        found[name]["moved"] = norms([np.array(weight.value) - old for weight, old in zip(weights, first, strict=True)])
print(json.dumps(found))
