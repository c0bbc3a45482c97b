from __future__ import annotations

import tensorflow as tf

from tf_stitch.convert.built_sizes import MOST_SAID, batch_sizes, built_sizes, size_lines
from tf_stitch.convert.inputs import Case, generated
from tf_stitch.convert.saved_model import Signature, Value

X = Value("x", "x:0", tf.float32, (None, 16))
SERVE = Signature("serve", (X, Value("scale", "scale:0", tf.float32, (3,))), ())
FIXED = Signature("fixed", (Value("x", "x:0", tf.float32, (2, 16)),), ())


def cases(*rows: int) -> list[Case]:
    return [generated(SERVE, {"x": (n, 16), "scale": (3,)}) for n in rows]


def test_each_shape_is_listed_once() -> None:
    found = built_sizes([*cases(1, 8, 1), generated(FIXED, {"x": (2, 16)})])
    assert found == {"serve": [{"scale": [3], "x": [1, 16]}, {"scale": [3], "x": [8, 16]}],
                     "fixed": [{"x": [2, 16]}]}
    assert batch_sizes(SERVE, found["serve"]) == [1, 8]
    assert batch_sizes(FIXED, found["fixed"]) == []


def test_lines_say_what_a_server_that_batches_is_told() -> None:
    sizes = built_sizes([*cases(8, 1), generated(FIXED, {"x": (2, 16)})])
    assert size_lines([SERVE, FIXED], sizes) == [
        "serve has kernels for 2 shapes: scale[3] x[8,16]; scale[3] x[1,16]",
        "serve, in a server that batches: max_batch_size { value: 8 } allowed_batch_sizes: [1, 8]",
        "fixed has kernels for 1 shape: x[2,16]"]


def test_a_line_names_some_of_many_shapes() -> None:
    first, _ = size_lines([SERVE], built_sizes(cases(*range(1, 33))))
    assert first.startswith("serve has kernels for 32 shapes: scale[3] x[1,16]; ")
    assert first.endswith(f"; and {32 - MOST_SAID} more")
