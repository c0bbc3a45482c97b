"""Ops of ours that stand in a rewritten graph for what a region or a loop was."""

REGIONS = frozenset({"StitchOp", "StitchStateOp"})
STITCH_OPS = REGIONS | {"StitchWhile"}
UPLOAD = "StitchUpload"
OWN_OPS = STITCH_OPS | {UPLOAD}
"""Those and what stands before them, of the same regions."""
OUR_PREFIX = "Stitch"
"""How the names of all our ops begin."""
