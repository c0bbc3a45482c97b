"""Converts a SavedModel to one that carries its kernels with it: `tf_stitch convert`, from a clone.

    python tools/convert_saved_model.py --input_dir=model --output_dir=converted
"""

from __future__ import annotations

import os
import sys

# This folder's bisect.py must not be taken for Python's; and the package need not be installed.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from tf_stitch.convert.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
