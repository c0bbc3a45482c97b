"""Ops of ours that stand in a rewritten graph for what a region or a loop was."""

from secrets import randbits

REGIONS = frozenset({"StitchOp", "StitchStateOp"})
STITCH_OPS = REGIONS | {"StitchWhile"}
UPLOAD = "StitchUpload"
OWN_OPS = STITCH_OPS | {UPLOAD}
"""Those and what stands before them, of the same regions."""
OUR_PREFIX = "Stitch"
"""How the names of all our ops begin."""

TOKEN = randbits(62) | 1
"""What nodes of this process's graphs carry beside a region's number: graphs from elsewhere do not know it."""
