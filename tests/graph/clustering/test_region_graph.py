"""Regions as graphs of their own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import trace
from tf_stitch.errors import UnsupportedError
from tf_stitch.graph.clustering.region_graph import cut_region


@pytest.mark.parametrize("written", [False, True])
def test_reads_are_one_input_if_the_variable_is_only_read(written: bool) -> None:
    variable = tf.Variable(np.zeros(4, np.float32))

    def step(x: tf.Tensor) -> tf.Tensor:
        before = variable.read_value()
        if written:
            variable.assign_add(x)
        after = variable.read_value()
        with tf.name_scope("region"):
            return before * x + after

    imported = trace(step, tf.TensorSpec([4], tf.float32)).imported
    members = [name for name in imported.nodes if name.startswith("region/")]
    (result,) = (name for name in members if imported.nodes[name].op == "AddV2")
    region = cut_region(imported, members, [f"{result}:0"])
    reads = [tensor for tensor in region.inputs if "ReadVariableOp" in tensor]
    assert len(reads) == (2 if written else 1)


def test_a_variable_whose_value_nobody_needs_is_left_out() -> None:
    variable = tf.Variable(np.zeros(4, np.float32))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("region"):
            variable.assign_add(x)
            variable.assign(x * 2.0)
            return x + 1.0

    imported = trace(step, tf.TensorSpec([4], tf.float32)).imported
    members = [name for name in imported.nodes if name.startswith("region/")]
    (result,) = (name for name in members if imported.nodes[name].op == "AddV2")
    with pytest.raises(UnsupportedError, match="does not need"):
        cut_region(imported, members, [f"{result}:0"])
