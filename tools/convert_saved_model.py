"""Converts a SavedModel to one that carries its kernels with it: `tf_stitch convert`, from a clone.

    python tools/convert_saved_model.py --input_dir=model --output_dir=converted
"""

from __future__ import annotations

import sys

from tf_stitch.convert.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
