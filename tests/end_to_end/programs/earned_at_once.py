"""Runs a program whose calls earn kernels by taking any time at all. Arguments: the program, and its own."""

from __future__ import annotations

import runpy
import sys

from tf_stitch.plugin import allowance

allowance.host_seconds = lambda on_gpus: (0.0, 0.0)
allowance.SHARE = 1e9
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
