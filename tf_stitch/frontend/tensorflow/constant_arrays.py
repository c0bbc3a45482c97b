"""The values of constants of a GraphDef."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorflow import dtypes, make_ndarray
from tensorflow.core.framework.tensor_pb2 import TensorProto


def constant_array(proto: TensorProto) -> NDArray[Any]:
    """The values as TensorFlow's kernels read them (Tensor::FromProto): Grappler writes constants of no elements that
    list a value all the same, which tf.make_ndarray refuses."""
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if 0 in shape:
        return np.empty(shape, dtypes.as_dtype(proto.dtype).as_numpy_dtype)
    array: NDArray[Any] = make_ndarray(proto)
    return array
