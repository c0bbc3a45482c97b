"""Converts a SavedModel to one that carries its kernels with it: `tf_stitch convert`, from a clone.

    python tools/convert_saved_model.py --input_dir=model --output_dir=converted
"""

from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if __name__ == "__main__":
    # Another process: this folder's bisect.py must not be taken for Python's, and the package need not be installed.
    path = os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tf_stitch.convert", *sys.argv[1:]]
    os.execve(sys.executable, command, os.environ | {"PYTHONPATH": path})
