"""Matmuls of single elements, which are cast and transposed before: prints the results."""
import tensorflow as tf


@tf.function
def run(x: tf.Tensor, y: tf.Tensor, computed: str) -> tf.Tensor:
    return tf.einsum("ijk,lkj->il", tf.cast(x, computed), tf.cast(y, computed))


for given, other, computed in (("bfloat16", "bfloat16", "bfloat16"), ("float32", "float16", "float32"),
                               ("int8", "float32", "float32")):
    print(float(run(tf.constant([[[3]]], given), tf.constant([[[5]]], other), computed)[0, 0]))
