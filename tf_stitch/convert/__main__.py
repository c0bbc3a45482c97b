"""`python -m tf_stitch.convert`."""

from __future__ import annotations

import sys

from tf_stitch.convert.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
