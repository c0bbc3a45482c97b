"""Train steps of an encoder. Prints JSON: peak bytes of TensorFlow's allocator in each call, on a GPU or on the CPU
with TF_CPU_ALLOCATOR_USE_BFC=1, and bytes of what the steps write: weights, and two moments for each."""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorflow as tf

from tools.benchmark.region_cases import adam_step, encoder

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
device = "GPU:0" if gpus else "CPU:0"
variables, forward = encoder(4, 256, 4)()
step = tf.function(adam_step(variables, forward))
x, target = (tf.constant(np.random.default_rng(i).standard_normal((8, 64, 256)), tf.float32) for i in range(2))
peaks = []
for _ in range(int(sys.argv[1])):
    tf.config.experimental.reset_memory_stats(device)
    step(x, target).numpy()
    peaks.append(tf.config.experimental.get_memory_info(device)["peak"])
written = 3 * sum(int(v.shape.num_elements()) * v.dtype.size for v in variables)
print(json.dumps({"peaks": peaks, "written": written}))
