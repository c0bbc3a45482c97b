"""Which results TensorFlow's GPU kernels have in host memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import tensorflow as tf
from tensorflow.core.framework.kernel_def_pb2 import KernelDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow import memory_types
from tf_stitch.frontend.tensorflow.memory_types import results_on_host


def node(op: str, **types: tf.DType) -> NodeDef:
    made = NodeDef(name="x", op=op)
    for name, dtype in types.items():
        made.attr[name].type = dtype.as_datatype_enum
    return made


@pytest.mark.parametrize(("op", "types", "on_host"), [
    ("ArgMax", {"T": tf.float32, "output_type": tf.int32}, False),
    ("SelectV2", {"T": tf.int32}, False),
    ("Cast", {"SrcT": tf.float32, "DstT": tf.int32}, False),
    ("AddV2", {"T": tf.int32}, True),
    ("AddV2", {"T": tf.float32}, False),
    ("Shape", {"T": tf.float32}, True),
    ("Shape", {"T": tf.float32, "out_type": tf.int64}, True),
    ("Pack", {"T": tf.int32}, True),
    ("Unheard", {}, False),
])  # fmt: skip
def test_memory_of_results(op: str, types: dict[str, tf.DType], on_host: bool) -> None:
    assert results_on_host(node(op, **types)) is on_host


def test_nodes_of_one_op_and_types_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph has thousands of casts, which has a kernel for each pair of types."""
    asked: list[object] = []
    takes = memory_types._takes

    def counted(kernel: KernelDef, types: Mapping[str, int]) -> bool:
        asked.append(kernel)
        return takes(kernel, types)

    memory_types._taking.cache_clear()
    monkeypatch.setattr(memory_types, "_takes", counted)
    cast = node("Cast", SrcT=tf.float32, DstT=tf.bfloat16)
    assert not results_on_host(cast)
    once = len(asked)
    assert once > 10
    assert not any(results_on_host(cast) for _ in range(20))
    assert len(asked) == once
