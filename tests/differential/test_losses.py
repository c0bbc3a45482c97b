"""A loss of many classes and its gradient, in the layout that large batches have: rows shared by clusters of two
blocks, exponentials in the place of logits, the wanted logit read where its label says. As CUDA, run on this machine.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.differential.runner import compare, random_values, reference
from tests.support.cuda_on_cpu import ADVERSARIES, run_on_cpu
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import H200
from tools.benchmark.gpu_regions import regions_of

ROWS, WIDTH, CLASSES = 256, 64, 50257
"""No multiple of 8 classes: rows of logits are longer by 7, which do not count."""


def losses(labels: tf.Tensor, states: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Their mean, and gradients."""
    logits = tf.matmul(states, weights)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
        mean = tf.reduce_mean(each)
    gradient = tape.gradient(mean, logits)
    return mean, tf.matmul(gradient, weights, transpose_b=True), tf.matmul(states, gradient, transpose_a=True)


def test_a_loss_and_its_gradient() -> None:
    specs = (tf.TensorSpec((ROWS,), tf.int64), tf.TensorSpec((ROWS, WIDTH), tf.bfloat16),
             tf.TensorSpec((WIDTH, CLASSES), tf.bfloat16))
    [region] = regions_of(tf.function(losses, autograph=False).get_concrete_function(*specs)).regions.regions
    built = compile_region(region.graph, region.input_keys, region.variable_keys, CompileOptions(H200))
    [kernel] = [k for k in built.kernels if k.schedule.mapping.cluster]
    assert kernel.schedule.mapping.row_blocks == 2
    assert [s.instead_of is not None for s in kernel.schedule.staged] == [False, True]
    values = random_values(region.graph)
    [labels] = [name for name, value in values.items() if value.dtype.kind == "i"]
    values[labels] = np.random.default_rng(0).integers(0, CLASSES, ROWS)
    values[labels][:2] = 0, CLASSES - 1
    want, allowed = reference(region.graph, values)
    compare(region.graph, run_on_cpu(region.graph, built, values, ADVERSARIES[0]), want, allowed, "CUDA on a CPU")
