"""tf_stitch: stitches the memory-intensive operators of TensorFlow graphs into few kernels.

Importing it imports no TensorFlow. From then on TF_STITCH is read when TensorFlow is imported, as it is where Python
started with TF_STITCH=1. docs/python.md describes the functions.
"""

from tf_stitch.api import allow_modules, disable, enable, exclude, is_enabled, last_report, wait
from tf_stitch.plugin import autoload as _autoload  # noqa: F401  (importing it waits for TensorFlow)
from tf_stitch.version import __version__

__all__ = ["__version__", "allow_modules", "disable", "enable", "exclude", "is_enabled", "last_report", "wait"]
