"""tf_stitch: stitches the memory-intensive operators of TensorFlow graphs into few kernels."""

__version__ = "0.1.0"
