"""A function of one device reads an argument that TensorFlow puts on another; prints the ops of each part that it runs,
and what it computes."""

import json

import tensorflow as tf
from tensorflow.python.eager import context

[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@tf.function
def step(words):
    with tf.device("CPU:1"):
        return tf.tanh(tf.cast(words, tf.float32) * 0.25) + 1.0


words = tf.range(8)
context.context().enable_run_metadata()
result = step(words)
metadata = context.context().export_run_metadata()
parts = [[node.op for node in part.node] for graph in metadata.function_graphs for part in graph.partition_graphs]
print(json.dumps({"parts": parts, "result": result.numpy().tolist()}))
