"""`python -m tools.explain` is `tf_stitch explain`, from a clone."""

from __future__ import annotations

import sys

from tf_stitch.cli.explain.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
