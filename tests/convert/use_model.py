"""Calls signatures of two SavedModels on the same inputs, with the op library and nothing else of tf_stitch.

    use_model.py OP_LIBRARY ONE OTHER INPUTS.npz

Prints {"worst": {signature: ...}, "runs": n, "fallbacks": n, "shapes": [[model, region, shape, runs, fallbacks], ...]}.
"""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np
import tensorflow as tf

OP_LIBRARY, ONE, OTHER, INPUTS = sys.argv[1:]


class Refused:
    """Nothing of the package can be imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "tf_stitch":
            raise ImportError(f"{name} is not to be imported")


sys.meta_path.insert(0, Refused())
tf.load_op_library(OP_LIBRARY)
arrays = np.load(INPUTS)
one, other = tf.saved_model.load(ONE), tf.saved_model.load(OTHER)
worst = {}
for name, signature in one.signatures.items():
    inputs = {n: tf.constant(arrays[n]) for n in signature.structured_input_signature[1]}
    expected, found = signature(**inputs), other.signatures[name](**inputs)
    for key, value in expected.items():
        a, b = value.numpy(), found[key].numpy()
        difference = float(np.abs(a - b).max()) if a.dtype.kind == "f" else float(not np.array_equal(a, b))
        worst[name] = max(worst.get(name, 0.0), difference)
counts = ctypes.CDLL(OP_LIBRARY).tfs_stat
counts.restype = ctypes.c_int64
shapes: list[tuple[str, int, str, int, int]] = []
VISIT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64,
                         ctypes.c_int64)
visit = VISIT(lambda _, model, region, shape, runs, fallbacks:
              shapes.append((model.decode(), region, shape.decode(), runs, fallbacks)))
ctypes.CDLL(OP_LIBRARY).tfs_visit_shapes(visit, None)
print(json.dumps({"worst": worst, "runs": counts(0), "fallbacks": counts(3), "shapes": shapes}))
