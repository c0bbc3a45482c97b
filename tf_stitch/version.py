"""The version of tf_stitch."""

__version__ = "0.2.0"
