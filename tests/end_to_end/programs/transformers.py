"""Losses of three steps and an output of small transformers, as JSON."""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
import tensorflow as tf

from models import language

found = {}
for name in sys.argv[1:]:
    keras.utils.set_random_seed(1)
    network = language.build(name, language.SMALL[name])
    wanted, *given = map(tf.constant, network.batch(4))
    step, infer = (tf.function(f, autograph=False) for f in (network.train, network.infer))
    losses = [float(step(wanted, *given)) for _ in range(3)]
    found[name] = [*losses, float(np.abs(infer(*given).numpy()).mean())]
print(json.dumps(found))
