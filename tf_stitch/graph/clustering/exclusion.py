"""Names of nodes that `tf_stitch.exclude` marks."""

from __future__ import annotations

SCOPE = "tf_stitch_exclude"
EXCLUDED = "left out by tf_stitch.exclude"


def is_excluded(node: str) -> bool:
    """Whether a node, or the one that it is the gradient of, was made within the scope."""
    return SCOPE in node
