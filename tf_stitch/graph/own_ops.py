"""Ops of ours that stand in a rewritten graph for what a region or a loop was."""

STITCH_OPS = frozenset({"StitchOp", "StitchStateOp", "StitchWhile"})
UPLOAD = "StitchUpload"
OWN_OPS = STITCH_OPS | {UPLOAD}
"""Those and what stands before them, of the same regions."""
