"""Constants as TensorFlow's kernels read them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from tf_stitch.frontend.tensorflow.constant_arrays import constant_array


def _in_tensorflow(proto: TensorProto) -> np.ndarray:
    with tf.Graph().as_default() as graph:
        node = graph.as_graph_def().node.add(op="Const", name="c")
        node.attr["value"].tensor.CopyFrom(proto)
        node.attr["dtype"].type = proto.dtype
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef(node=[node]), name="")
        value: np.ndarray = tf.compat.v1.Session(graph=graph).run("c:0")
        return value


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [tf.int32, tf.float32, tf.bfloat16, tf.bool])
def test_one_value_for_all_elements(shape: tuple[int, ...], dtype: tf.DType) -> None:
    """Grappler writes splats so, of no elements as well."""
    proto = tf.make_tensor_proto(np.ones(1), dtype, [1])
    if proto.tensor_content:
        proto = tf.make_tensor_proto(1, dtype)
    proto.tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    wanted, found = _in_tensorflow(proto), constant_array(proto)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(found, wanted)
