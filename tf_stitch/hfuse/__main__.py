"""`python -m tf_stitch.hfuse`: see docs/hfuse.md."""

from __future__ import annotations

import sys

from tf_stitch.hfuse.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
