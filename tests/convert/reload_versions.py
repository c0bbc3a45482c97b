"""Loads one version of a converted model after the other, with the op library and nothing else of tf_stitch.

    reload_versions.py OP_LIBRARY LOADER WARM_UPS VERSION...       prints a JSON list: what the process has after each

LOADER is `objects` (tf.saved_model.load) or `session`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf

OP_LIBRARY, LOADER, *VERSIONS = sys.argv[1:]
X = np.ones((3, 16), np.float32)


def by_objects(path: str) -> Any:
    model = tf.saved_model.load(path)
    return next(iter(model.signatures["serving_default"](x=tf.constant(X)).values())).numpy()


def by_session(path: str) -> Any:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        output = next(iter(signature.outputs.values())).name
        return session.run(output, {signature.inputs["x"].name: X})


def has() -> dict[str, int]:
    with open("/proc/self/maps") as maps:
        lines = list(maps)
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {"descriptors": len(os.listdir("/proc/self/fd")), "maps": len(lines), "bytes": resident,
            "kernels": sum("tf_stitch_kernels" in line for line in lines)}


tf.load_op_library(OP_LIBRARY)
run = {"objects": by_objects, "session": by_session}[LOADER]
expected, said = None, []
for path in VERSIONS:
    found = run(path)
    expected = found if expected is None else expected
    np.testing.assert_array_equal(found, expected)
    gc.collect()
    said.append(has())
counts = ctypes.CDLL(OP_LIBRARY).tfs_stat
counts.restype = ctypes.c_int64
print(json.dumps({"has": said, "runs": counts(0), "fallbacks": counts(3)}))
