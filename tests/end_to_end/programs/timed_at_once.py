"""Runs a program whose regions are timed against TensorFlow's ops in its first calls, whatever share of its time that
takes. Arguments: the program, and its own."""

from __future__ import annotations

import runpy
import sys

from tf_stitch.native.bindings import UNLIMITED
from tf_stitch.plugin import activation

if activation._native is not None:
    activation._native.enable_profitability_check(True, share=UNLIMITED)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
