"""Checks which sizes that TensorFlow's inference calls equal are equal."""
