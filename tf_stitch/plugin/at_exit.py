"""What tf_stitch does when the process ends, after all that the program does then.

Handlers of atexit run last registered first. This module is imported when Python starts, so what it registers runs
after the handlers of the program, which may still run TensorFlow.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack

callbacks = ExitStack()
"""Called last added first."""
atexit.register(callbacks.close)
