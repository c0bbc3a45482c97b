"""`python -m tools.bisect` is `tf_stitch bisect`, from a clone."""

from __future__ import annotations

import sys

from tf_stitch.cli.bisect import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
